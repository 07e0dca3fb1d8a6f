// The signals by which a person or a system ends a launcher, as something to poll; undone at the end of its life.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace dtrain::launch {

class SignalWatch {
 public:
  SignalWatch() {
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD}) {
      struct sigaction now {};
      // Who is started under nohup is not to hear of a hang-up. (A shell's script has SIGINT ignored in what it starts
      // with "&", which is to hear of it all the same.)
      if (s != SIGHUP || sigaction(s, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) sigaddset(&set, s);
    }
    sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_; }
  // The next pending signal other than SIGCHLD, or 0.
  int next() {
    signalfd_siginfo info;
    while (::read(fd_, &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    return 0;
  }

 private:
  sigset_t before_;
  int fd_ = -1;
};

}  // namespace dtrain::launch
