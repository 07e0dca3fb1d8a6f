#include "net/asio/port_owner.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace dtrain::net {
namespace {

// The sockets that listen at `port`, by the kernel's table: "sl local remote st queues timer retrnsmt uid timeout
// inode".
void add_listeners(const char* table, uint16_t port, std::set<std::string>* inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    const size_t colon = local.rfind(':');
    if (state != "0A" || colon == std::string::npos) continue;
    if (std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port) inodes->insert("socket:[" + inode + "]");
  }
}

bool holds_one_of(const std::string& process, const std::set<std::string>& sockets) {
  const std::string folder = "/proc/" + process + "/fd";
  DIR* fds = ::opendir(folder.c_str());
  if (fds == nullptr) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(fds)) {
    char target[64];
    const ssize_t n = ::readlink((folder + "/" + entry->d_name).c_str(), target, sizeof(target));
    if (n > 0 && sockets.count(std::string(target, static_cast<size_t>(n))) > 0) {
      found = true;
      break;
    }
  }
  ::closedir(fds);
  return found;
}

}  // namespace

std::string port_owner(uint16_t port) {
  std::set<std::string> sockets;
  add_listeners("/proc/net/tcp", port, &sockets);
  add_listeners("/proc/net/tcp6", port, &sockets);
  if (sockets.empty()) return "";
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return "";
  std::string owner;
  while (const dirent* entry = ::readdir(processes)) {
    const std::string process = entry->d_name;
    if (process.find_first_not_of("0123456789") != std::string::npos || !holds_one_of(process, sockets)) continue;
    std::ifstream file("/proc/" + process + "/cmdline");
    std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    while (!command.empty() && command.back() == '\0') command.pop_back();
    std::replace(command.begin(), command.end(), '\0', ' ');
    owner = fmt::format("process {} ({})", process, command.substr(0, 200));
    break;
  }
  ::closedir(processes);
  return owner;
}

}  // namespace dtrain::net
