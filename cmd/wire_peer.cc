#include "wire_peer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace dtrain::cmd {
namespace {

tl::unexpected<Error> gone() { return fail(ExitCode::kPeerLost, "the other process of the benchmark is gone"); }

}  // namespace

Result<std::pair<net::UniqueFd, net::UniqueFd>> PeerChannel::make_ends() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(ExitCode::kUsage, fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  return std::pair(net::UniqueFd(ends[0]), net::UniqueFd(ends[1]));
}

Status PeerChannel::send(const Order& order, int fd) {
  iovec bytes{const_cast<Order*>(&order), sizeof(order)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(int));
  }
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(order))) return gone();
  return {};
}

Result<std::pair<Order, net::UniqueFd>> PeerChannel::receive() {
  Order order;
  iovec bytes{&order, sizeof(order)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n;
  do n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(sizeof(order))) return gone();
  net::UniqueFd fd;
  if (const cmsghdr* head = CMSG_FIRSTHDR(&message); head && head->cmsg_type == SCM_RIGHTS) {
    int number;
    std::memcpy(&number, CMSG_DATA(head), sizeof(int));
    fd = net::UniqueFd(number);
  }
  return std::pair(order, std::move(fd));
}

Result<net::UniqueFd> PeerChannel::await_done() {
  DTRAIN_TRY_ASSIGN(auto answer, receive());
  if (answer.first.act != Act::kDone) return gone();
  return std::move(answer.second);
}

Status PeerChannel::obey(const Order& order, int fd) {
  DTRAIN_TRY(send(order, fd));
  DTRAIN_TRY(await_done());
  return {};
}

}  // namespace dtrain::cmd
