// malloc, free, copies, addresses.
#include "misuse/misuse.h"

#include <atomic>

namespace precast::misuse {
namespace {

Misuse OutOfMemory() {
  return {"out_of_device_memory",
          ErrorCode::out_of_memory,
          {"1099511627776 bytes asked", "in use", "available"},
          [](Worker& worker) {
            worker.malloc({1 << 20, 1 << 20}, DType::u8);
          }};
}

Misuse OutOfMemoryInPieces() {
  return {"out_of_device_memory_in_pieces",
          ErrorCode::out_of_memory,
          {"asked", "in use", "available"},
          [](Worker& worker) {
            std::vector<Tensor> pieces;
            int64_t quarter = static_cast<int64_t>(worker.properties().memory_bytes / 4);
            try {
              for (;;) pieces.push_back(worker.malloc({quarter / 4096, 4096}, DType::u8));
            } catch (const Error&) {
              EXPECT_GE(pieces.size(), 3u);
              for (const Tensor& piece : pieces) worker.free(piece);
              throw;
            }
          }};
}

Misuse MallocTooLarge() {
  return {"malloc_of_more_bytes_than_64_bits",
          ErrorCode::out_of_range,
          {"bytes", "f64"},
          [](Worker& worker) {
            worker.malloc({4000000000, 2000000000}, DType::f64);
          }};
}

Misuse FreeTwice() {
  return {"free_twice", ErrorCode::stale, {"freed"}, [](Worker& worker) {
            Tensor t = worker.malloc({8}, DType::i64);
            worker.free(t);
            worker.free(t);
          }};
}

/// The same number was given to a new allocation: the old tensor must not free it.
Misuse FreeReused() {
  return {"free_of_an_older_tensor", ErrorCode::stale, {"freed"}, [](Worker& worker) {
            Tensor old = worker.malloc({8}, DType::i64);
            worker.free(old);
            DeviceTensor now(worker, {8});
            worker.free(old);
          }};
}

Misuse FreeInterior() {
  return {"free_of_a_part",
          ErrorCode::invalid_argument,
          {"i64[4]", "64 bytes", "from byte 32"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            worker.free(t->slice(0, 4, 8));
          }};
}

Misuse FreePrefix() {
  return {"free_of_a_prefix", ErrorCode::invalid_argument, {"i64[4]", "64"}, [](Worker& worker) {
            DeviceTensor t(worker, {8});
            worker.free(t->slice(0, 0, 4));
          }};
}

Misuse FreeForeign() {
  return {"free_of_another_workers", ErrorCode::mismatch, {"another worker"}, [](Worker& worker) {
            Worker other;
            DeviceTensor t(other, {8});
            worker.free(*t);
          }};
}

Misuse FreeHost() {
  return {"free_of_a_host_tensor",
          ErrorCode::mismatch,
          {"host", "i64[8]", "device"},
          [](Worker& worker) {
            std::vector<int64_t> x(8);
            worker.free(Tensor::host(x.data(), {8}));
          }};
}

Misuse FreeNothing() {
  return {"free_of_nothing", ErrorCode::mismatch, {"nothing"}, [](Worker& worker) {
            worker.free(Tensor());
          }};
}

std::atomic<bool> may_end;
PRECAST_KERNEL(runs_until_told, Core::vector)(const KernelContext&) { may_end.wait(false); }

Misuse FreeInFlight() {
  return {"free_while_a_run_uses_it",
          ErrorCode::invalid_argument,
          {"i64[8]", "in flight"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            may_end = false;
            RunHandle run = worker.submit(
                [](Orchestrator& o, const Args& args) {
                  o.submit(runs_until_told, {in(args.tensor(0))});
                },
                {in(*t)});
            struct AtTheEnd {  // before the handle waits
              ~AtTheEnd() {
                may_end = true;
                may_end.notify_all();
              }
            } tell;
            worker.free(*t);
          }};
}

Misuse CopyWrongSize(bool to) {
  return {to ? "copy_to_of_a_wrong_size" : "copy_from_of_a_wrong_size",
          ErrorCode::out_of_range,
          {to ? "copy_to" : "copy_from", "56", "64", "i64[8]"},
          [to](Worker& worker) {
            DeviceTensor t(worker, {8});
            std::vector<int64_t> seven(7);
            to ? worker.copy_to(*t, seven) : worker.copy_from(seven, *t);
          }};
}

Misuse CopyStrided() {
  return {"copy_to_a_strided_view",
          ErrorCode::invalid_argument,
          {"copy_to", "contiguous"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            std::vector<int64_t> four(4);
            worker.copy_to(t->slice(0, 0, 8, 2), four);
          }};
}

Misuse MemsetStrided() {
  return {"memset_of_a_strided_view",
          ErrorCode::invalid_argument,
          {"memset", "contiguous"},
          [](Worker& worker) {
            DeviceTensor t(worker, {4, 4});
            worker.memset(t->transpose(0, 1), 0);
          }};
}

Misuse CopyNull() {
  return {"copy_from_a_null_pointer",
          ErrorCode::invalid_argument,
          {"copy_to", "null"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            worker.copy_to(*t, nullptr, 64);
          }};
}

Misuse CopyHostTensor() {
  return {"copy_to_a_host_tensor",
          ErrorCode::mismatch,
          {"host tensor", "device memory"},
          [](Worker& worker) {
            std::vector<int64_t> x(8), y(8);
            worker.copy_to(Tensor::host(x.data(), {8}), y);
          }};
}

Misuse CopyFreed() {
  return {"copy_to_a_freed_tensor", ErrorCode::stale, {"i64[8]", "freed"}, [](Worker& worker) {
            Tensor t = worker.malloc({8}, DType::i64);
            worker.free(t);
            worker.copy_to(t, std::vector<int64_t>(8));
          }};
}

Misuse RunWithAFreedArgument() {
  return {"run_with_a_freed_argument",
          ErrorCode::stale,
          {"argument 1 of the run", "i64[8]", "freed"},
          [](Worker& worker) {
            Tensor t = worker.malloc({8}, DType::i64);
            worker.free(t);
            worker.run([](Orchestrator&, const Args&) {}, {7, in(t)});
          }};
}

Misuse AddressFreed() {
  return {"address_of_a_freed_tensor", ErrorCode::stale, {"freed"}, [](Worker& worker) {
            Tensor t = worker.malloc({8}, DType::i64);
            worker.free(t);
            worker.address(t);
          }};
}

Misuse TensorAtNowhere() {
  return {"tensor_at_no_allocation",
          ErrorCode::invalid_argument,
          {"0x1234560", "no live allocation"},
          [](Worker& worker) { worker.tensor_at(0x1234560, {8}, DType::i64); }};
}

Misuse TensorAtFreed() {
  return {"tensor_at_a_freed_allocation",
          ErrorCode::invalid_argument,
          {"no live allocation"},
          [](Worker& worker) {
            uint64_t address;
            {
              DeviceTensor t(worker, {1 << 20});
              address = worker.address(*t) + 4096;
            }
            worker.tensor_at(address, {8}, DType::i64);
          }};
}

Misuse TensorAtTooLong() {
  return {"tensor_at_past_the_end",
          ErrorCode::out_of_range,
          {"i64[8]", "64", "at most 56"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            worker.tensor_at(worker.address(*t) + 8, {8}, DType::i64);
          }};
}

Misuse TensorAtOdd() {
  return {"tensor_at_an_odd_address",
          ErrorCode::invalid_argument,
          {"multiple of 8"},
          [](Worker& worker) {
            DeviceTensor t(worker, {8});
            worker.tensor_at(worker.address(*t) + 4, {1}, DType::i64);
          }};
}

}  // namespace

std::vector<Misuse> MemoryMisuse() {
  return {OutOfMemory(),
          OutOfMemoryInPieces(),
          MallocTooLarge(),
          FreeTwice(),
          FreeReused(),
          FreeInterior(),
          FreePrefix(),
          FreeForeign(),
          FreeHost(),
          FreeNothing(),
          FreeInFlight(),
          CopyWrongSize(true),
          CopyWrongSize(false),
          CopyStrided(),
          MemsetStrided(),
          CopyNull(),
          CopyHostTensor(),
          CopyFreed(),
          RunWithAFreedArgument(),
          AddressFreed(),
          TensorAtNowhere(),
          TensorAtFreed(),
          TensorAtTooLong(),
          TensorAtOdd()};
}

}  // namespace precast::misuse
