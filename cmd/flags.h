// Flags that several commands share, and the way to declare one: `--job_name` also as `--job-name` and as
// DTRAIN_JOB_NAME in the environment; the command line wins.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::cmd {

// "--job_name" → "--job_name,--job-name"; `others` are further names, as "--task_index".
inline std::string spellings(const std::string& name, const std::vector<std::string>& others = {}) {
  std::string all;
  auto add = [&all](std::string flag) {
    all += (all.empty() ? "" : ",") + flag;
    std::string dashed = flag;
    std::replace(dashed.begin() + 2, dashed.end(), '_', '-');
    if (dashed != flag) all += "," + dashed;
  };
  add(name);
  for (const std::string& other : others) add(other);
  return all;
}

inline std::string environment_name(const std::string& flag) {
  std::string name = "DTRAIN_" + flag.substr(2);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

template <typename T>
CLI::Option* add_flag_value(CLI::App& app, const std::string& name, T& target, const std::string& text,
                            const std::vector<std::string>& others = {}) {
  return app.add_option(spellings(name, others), target, text)->envname(environment_name(name));
}

inline CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& target, const std::string& text) {
  return app.add_flag(spellings(name), target, text)->envname(environment_name(name));
}

// As CLI::Range, which lets NaN pass.
inline CLI::Validator number_from(double min, double max) {
  return CLI::Validator(
      [min, max](const std::string& text) {
        double x = 0;
        return CLI::detail::lexical_cast(text, x) && x >= min && x <= max
                   ? ""
                   : fmt::format("must be a number from {:g} to {:g}, got '{}'", min, max, text);
      },
      "");
}

// The run file and what is set on top of it.
struct RunFileFlags {
  std::string file;
  std::vector<std::string> set;

  void declare(CLI::App& app) {
    app.add_option("RUN", file, "the run file (TOML)")->required();
    app.add_option("--set", set, "override one key of the run file, as train.batch=64; repeatable")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
  }
};

// Prints an error for a person, every line of it with the program's name, and gives its exit code.
inline ExitCode report(const Error& error) {
  std::string lines = error.message;
  for (size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n', end + 1))
    if (end + 1 < lines.size()) lines.insert(end + 1, "dtrain: ");
  fmt::print(stderr, "dtrain: {}\n", lines);
  return error.code;
}

}  // namespace dtrain::cmd
