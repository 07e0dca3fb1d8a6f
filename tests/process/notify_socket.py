"""The other end of sd_notify: stands for a service manager."""
import re, socket, threading
from cluster import until


class NotifySocket:
    """A datagram socket, and the assignments that came there. It is read all the time, as a service manager does: what does
    not fit into its queue is lost."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.environment = {"NOTIFY_SOCKET": address}
        self.socket.settimeout(0.1)  # to see that it is to end
        self.said, self.ending = [], False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while not self.ending:
            try:
                self.said += self.socket.recv(65536).decode().split("\n")
            except TimeoutError:
                pass

    def close(self):
        self.ending = True
        self.reader.join()
        self.socket.close()

    def listen(self):
        """What has come."""
        return list(self.said)

    def hears(self, pattern):
        return until(lambda: next((m for m in map(re.compile(pattern).fullmatch, self.listen()) if m), None),
                     lambda: f"{pattern!r} said; it was {self.said}")

    def count(self, word):
        return self.listen().count(word)
