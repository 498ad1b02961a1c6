// Inspector: is shown the image of each run once it is complete, before it goes to the device.
//
// For tools that look at graphs (src/view/). A worker that has one (WorkerImpl::set_inspector) has
// its builders keep a graph::BuildLog beside every image.
//
// Threads: called on the thread of the orchestration, which waits for it. What it throws fails the
// run.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace precast::detail {
class RunBuilder;
}

namespace precast::run {

/// `builder` knows the definitions, kernels and buffers that `image` names; both are valid during
/// the call.
using Inspector =
    std::function<void(const detail::RunBuilder& builder, std::span<const std::byte> image)>;

}  // namespace precast::run
