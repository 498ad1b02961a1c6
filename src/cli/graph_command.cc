#include "cli/graph_command.h"

#include "cli/output.h"
#include "cli/subprocess.h"
#include "view/graph_drawing.h"

#include <precast/error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace precast::cli {
namespace {

constexpr std::string_view kExamples =
    "Examples:\n"
    "  precast graph paged_attention -o graph.svg\n"
    "  precast graph qwen3 --prompt A --critical -o graph.svg\n"
    "  precast graph bgemm --case small --focus 3 --depth 1 -o graph.svg\n"
    "  precast graph vector_add --format json";

/// A file of its own, gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "precast-XXXXXX").string();
    int fd = mkstemp(pattern.data());
    std::FILE* file = fd < 0 ? nullptr : fdopen(fd, "w");
    if (file == nullptr) FailFile(pattern);
    path_ = pattern;
    bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) {
      std::filesystem::remove(path_);
      FailFile(pattern);
    }
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] static void FailFile(const std::string& path) {
    Fail(ErrorCode::io, "cannot write {}: {}", path, std::generic_category().message(errno));
  }
  std::string path_;
};

/// An executable of that name in one of the folders of PATH; empty if there is none.
std::string FindExecutable(std::string_view name) {
  const char* variable = std::getenv("PATH");
  for (std::string_view rest = variable == nullptr ? "" : variable; !rest.empty();) {
    size_t colon = rest.find(':');
    std::string path = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (access(path.c_str(), X_OK) == 0) return path;
    rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  }
  return {};
}

std::string ToSvg(const std::string& dot) {
  std::string path = FindExecutable("dot");
  if (path.empty()) {
    Fail(ErrorCode::not_found,
         "an SVG needs Graphviz, and there is no program 'dot' in PATH: install the package "
         "graphviz, or write --format dot");
  }
  TemporaryFile file(dot);
  SubprocessResult result = RunSubprocess({path, "-Tsvg", file.path()});
  if (result.exit_code != 0) {
    Fail(ErrorCode::internal, "{} failed with exit code {}: {}", path, result.exit_code,
         result.err.substr(0, 500));
  }
  return std::move(result.out);
}

void WriteFile(const std::string& path, const std::string& text) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (file == nullptr) {
    Fail(ErrorCode::usage, "-o {}: {}", path, std::generic_category().message(errno));
  }
  Output output(file.get());
  output.Write(text);
  output.Flush();
}

}  // namespace

void GraphCommand::Declare(CLI::App& app, const std::vector<std::string>& args) {
  program_.Declare(app);
  round_.Declare(app);
  app.add_option("-o,--output", file_, "Where to write [standard output]")->type_name("FILE");
  app.add_option("--format", format_, "dot, svg, json [by the name of the file, else dot]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"dot", "svg", "json"}).description(""));
  app.add_option("--focus", focus_,
                 "Only what is around this task: a number, a path such as 5.3 "
                 "inside a recorded graph, or a name")
      ->type_name("TASK");
  app.add_option("--depth", depth_, "How many edges around it [2]")
      ->type_name("N")
      ->check(CLI::Range(0, 1000).description(""));
  app.add_option("--max-tasks", max_tasks_,
                 "Tasks that stand alone; graphs with more are grouped by kernel [40]")
      ->type_name("N")
      ->check(CLI::Range(0, 100'000).description(""));
  app.add_flag("--critical", critical_, "Mark the longest path");
  AddChoice(app, "--weight", weight_, {"blocks", "tasks"}, "What a path is long by:");
  program_.DeclareProgram(app, args, kExamples);
}

std::string GraphCommand::Format() const {
  if (!format_.empty()) return format_;
  for (const char* format : {"svg", "json"}) {
    if (file_.ends_with(fmt::format(".{}", format))) return format;
  }
  return "dot";
}

int GraphCommand::Run(Output& output) {
  view::RunGraph run = CaptureRound(program_, round_);
  view::DrawOptions options{.title = TitleOf(program_), .max_tasks = max_tasks_, .depth = depth_};
  if (!focus_.empty()) options.focus = view::FindTask(run, focus_);
  if (critical_) {
    options.critical = weight_ == "tasks" ? view::PathWeight::tasks : view::PathWeight::blocks;
  }
  std::string format = Format();
  std::string text = format == "json" ? view::ToJson(run, options) : view::ToDot(run, options);
  if (format == "svg") text = ToSvg(text);
  if (file_.empty()) {
    output.Write(text);
    output.Flush();
  } else {
    WriteFile(file_, text);
  }
  return kSuccess;
}

}  // namespace precast::cli
