"""The other end of sd_notify: stands for a service manager."""
import re, select, socket
from cluster import until


class NotifySocket:
    """A datagram socket, and the assignments that came there."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.environment = {"NOTIFY_SOCKET": address}
        self.said = []

    def close(self):
        self.socket.close()

    def listen(self):
        """Takes what has come."""
        while select.select([self.socket], [], [], 0)[0]:
            self.said += self.socket.recv(65536).decode().split("\n")
        return self.said

    def hears(self, pattern):
        return until(lambda: next((m for m in map(re.compile(pattern).fullmatch, self.listen()) if m), None),
                     lambda: f"{pattern!r} said; it was {self.said}")

    def count(self, word):
        return self.listen().count(word)
