#include "scenes/scenes.h"

namespace precast::scenes {

const std::vector<Scene>& AllScenes() {
  static const std::vector<Scene> scenes = [] {
    std::vector<Scene> all;
    for (auto part : {OrderScenes, ShapeScenes, TaskScenes, PredicateScenes, MemoryScenes,
                      ArgumentScenes, TypeScenes}) {
      for (Scene& scene : part()) all.push_back(std::move(scene));
    }
    return all;
  }();
  return scenes;
}

}  // namespace precast::scenes
