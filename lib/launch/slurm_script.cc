#include "launch/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"
#include "launch/shell_quote.h"

namespace dtrain::launch {
namespace {

// A word as sbatch reads it back from a line of its own: in double quotes only they and backslashes mean anything.
Result<std::string> for_sbatch(const std::string& word) {
  std::string out;
  bool plain = !word.empty();
  for (const char c : word) {
    if (static_cast<unsigned char>(c) < ' ')
      return fail(ExitCode::kUsage,
                  fmt::format("'{}' has a line break or another control character in it, which no line "
                              "of a batch script can hold",
                              word));
    plain = plain && (is_alnum(c) || std::string_view("-_+./:,@%=[]").find(c) != std::string_view::npos);
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return plain ? out : '"' + out + '"';
}

// "--time 5" and "-p gpu" are two words, "--comment=a b" is one.
Result<std::string> user_option(const std::string& option) {
  if (option.size() < 2 || option[0] != '-')
    return fail(ExitCode::kUsage,
                fmt::format("--sbatch_option {}: an option of sbatch begins with '-', as --sbatch_option "
                            "--time=2:00:00",
                            option));
  for (const auto& [name, letter] : {std::pair("ntasks", 'n'), std::pair("nodes", 'N')})
    if (has_option({option}, name, letter))
      return fail(ExitCode::kUsage,
                  fmt::format("--sbatch_option {}: say it by --workers, --ps and --nodes of dtrain launch, so "
                              "that both know it",
                              option));
  const size_t blank = option.find(' ');
  if (blank == std::string::npos || option.find('=') < blank) return for_sbatch(option);
  DTRAIN_TRY_ASSIGN(const std::string name, for_sbatch(option.substr(0, blank)));
  DTRAIN_TRY_ASSIGN(const std::string value, for_sbatch(option.substr(option.find_first_not_of(' ', blank))));
  return name + " " + value;
}

}  // namespace

std::string without_patterns(const std::string& path) {
  std::string out;
  for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

bool has_option(const std::vector<std::string>& options, const std::string& name, char letter) {
  return std::ranges::any_of(options, [&](const std::string& option) {
    if (option.size() > 1 && option[0] == '-' && option[1] == letter) return true;
    const std::string word = option.substr(0, option.find_first_of("= "));
    return word == "--" + name;
  });
}

Result<std::string> slurm_script(const SlurmScript& script) {
  if (script.log.find('\\') != std::string::npos)
    return fail(
        ExitCode::kUsage,
        fmt::format("Slurm cannot write to '{}': it takes a backslash in a name for something else", script.log));
  std::string text = "#!/bin/sh\n# Written by dtrain launch --slurm; sbatch takes it again.\n";
  const auto line = [&text](const std::string& word) -> Status {
    DTRAIN_TRY_ASSIGN(const std::string quoted, for_sbatch(word));
    text += "#SBATCH " + quoted + "\n";
    return {};
  };
  DTRAIN_TRY(line("--job-name=" + script.job_name));
  DTRAIN_TRY(line("--chdir=" + script.folder));
  DTRAIN_TRY(line("--output=" + script.log));
  DTRAIN_TRY(line("--open-mode=append"));
  DTRAIN_TRY(line(fmt::format("--ntasks={}", script.tasks)));
  if (script.nodes > 0) DTRAIN_TRY(line(fmt::format("--nodes={}", script.nodes)));
  DTRAIN_TRY(line(script.requeue ? "--requeue" : "--no-requeue"));
  for (const std::string& option : script.options) {
    DTRAIN_TRY_ASSIGN(const std::string words, user_option(option));
    text += "#SBATCH " + words + "\n";
  }
  text +=
      "\n# The tasks take their place from Slurm, not from what else sbatch found in its environment.\n"
      "unset TF_CONFIG RANK OMPI_COMM_WORLD_RANK DTRAIN_CLUSTER DTRAIN_CLUSTER_SPEC DTRAIN_PS_HOSTS "
      "DTRAIN_WORKER_HOSTS\n"
      "unset DTRAIN_JOB_NAME DTRAIN_TASK_ID DTRAIN_PS DTRAIN_SERVERS DTRAIN_MAX_WORKERS DTRAIN_MIN_WORKERS "
      "DTRAIN_START_GRACE DTRAIN_SECRET_FD\n"
      "# From Slurm 22.05 on srun does not know --cpus-per-task by itself.\n"
      "if [ -n \"$SLURM_CPUS_PER_TASK\" ]; then export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"; fi\n"
      "# Tasks may share cores: threads that wait must not spin.\n"
      "export OMP_WAIT_POLICY=\"${OMP_WAIT_POLICY:-passive}\"\n";
  text += fmt::format("exec srun --kill-on-bad-exit={}", script.expendable_tasks ? 0 : 1);
  return text + " " + shell_quote(script.command) + "\n";
}

std::string job_id(const std::string& output) {
  for (size_t start = 0; start < output.size();) {
    const size_t end = std::min(output.find('\n', start), output.size());
    const std::string line = output.substr(start, end - start);
    const std::string id = line.substr(0, line.find(';'));  // of several clusters the name of one comes behind it
    if (!id.empty() && std::ranges::all_of(id, is_digit)) return id;
    start = end + 1;
  }
  return "";
}

}  // namespace dtrain::launch
