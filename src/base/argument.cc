#include <precast/argument.h>

namespace precast {

std::string_view Name(Direction direction) {
  switch (direction) {
    case Direction::scalar:
      return "scalar";
    case Direction::in:
      return "in";
    case Direction::out:
      return "out";
    case Direction::inout:
      return "inout";
    case Direction::no_dep:
      return "no_dep";
  }
  return "unknown";
}

}  // namespace precast
