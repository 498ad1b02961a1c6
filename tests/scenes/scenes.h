// The table of scenes.
#pragma once

#include "scenes/scene.h"

#include <string>
#include <vector>

namespace precast::scenes {

/// Every scene; made once.
const std::vector<Scene>& AllScenes();

// The parts of the table, by what they test.
std::vector<Scene> OrderScenes();      // what tensors imply
std::vector<Scene> ShapeScenes();      // shapes of graphs: chain, tree, wavefront, diamond
std::vector<Scene> TaskScenes();       // kinds and options of tasks
std::vector<Scene> PredicateScenes();  // tasks that run on a condition
std::vector<Scene> MemoryScenes();     // created tensors, scopes, the heap
std::vector<Scene> ArgumentScenes();   // what a run can be given, and looking into it
std::vector<Scene> TypeScenes();       // element types, scalars, ranks

/// The platforms on which scenes and examples are tested.
inline const std::vector<std::string>& TestedPlatforms() {
  static const std::vector<std::string> platforms{"cpu", "a2a3sim", "a2a3sim:host_page=64k",
                                                  "a5sim"};
  return platforms;
}

/// A platform's name as a part of a test's name.
inline std::string TestName(std::string platform) {
  for (char& c : platform) {
    if (c == ':' || c == '=') c = '_';
  }
  return platform;
}

/// The ways to execute a run that must all give the same bytes. The first is the oracle's.
struct Mode {
  std::string name;
  RunOptions options;
};
inline const std::vector<Mode>& AllModes() {
  static const std::vector<Mode> modes{{"oracle", {.oracle = true}},
                                       {"oracle_reverse", {.oracle = true, .reverse_blocks = true}},
                                       {"oracle_poison", {.oracle = true, .poison_outputs = true}},
                                       {"threads_1", {.threads = 1}},
                                       {"threads_2", {.threads = 2}},
                                       {"threads_8", {.threads = 8}}};
  return modes;
}

}  // namespace precast::scenes
