// The libraries that this process has loaded, and their versions.
#include <dlfcn.h>
#include <fmt/format.h>
#include <limits.h>
#include <link.h>

#include <cstdlib>

#include "doctor/check.h"
#include "ops/cpu/fingerprint.h"

namespace dtrain::doctor {
namespace {

struct Library {
  const char* name;
  const char* file;                 // its file's name begins so
  std::string (*says)() = nullptr;  // its version in its own words, where it has any
};

template <typename F>
F function(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

std::string openssl() {
  const auto f = function<const char* (*)(int)>("OpenSSL_version");
  return f ? f(6) : "";  // OPENSSL_VERSION_STRING
}
std::string zlib() {
  const auto f = function<const char* (*)()>("zlibVersion");
  return f ? f() : "";
}
std::string png() {
  const auto f = function<const char* (*)(const void*)>("png_get_libpng_ver");
  return f ? f(nullptr) : "";
}

const Library kLibraries_[] = {
    {"oneDNN", "libdnnl", ops::cpu::onednn_version},
    {"OpenMP", "libgomp"},
    {"fmt", "libfmt"},
    {"OpenSSL", "libcrypto", openssl},
    {"zlib", "libz", zlib},
    {"libpng", "libpng", png},
    {"turbojpeg", "libturbojpeg"},
    {"C++", "libstdc++"},
    {"C", "libc."},
};

// The files of all loaded libraries, links followed: their names end in versions.
std::vector<std::string> loaded() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        char path[PATH_MAX];
        if (info->dlpi_name && *info->dlpi_name && realpath(info->dlpi_name, path))
          static_cast<std::vector<std::string>*>(to)->emplace_back(path);
        return 0;
      },
      &files);
  return files;
}

void look(const Surroundings&, Findings& findings) {
  const std::vector<std::string> files = loaded();
  std::string all;
  for (const Library& library : kLibraries_) {
    std::string file;
    for (const std::string& path : files) {
      const std::string name = path.substr(path.rfind('/') + 1);
      if (name.starts_with(library.file)) file = name;
    }
    const std::string version = library.says ? library.says() : "";
    if (file.empty() && version.empty()) continue;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", library.name, version.empty() ? file : version);
  }
  findings.ok(all);
}

}  // namespace

const Check kLibraries{"libraries", look};

}  // namespace dtrain::doctor
