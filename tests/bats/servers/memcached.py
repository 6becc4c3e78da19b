# Many connections to memcached at once from one thread; every answer is checked.
#   memcached.py PORT CONNECTIONS SECONDS
import random
import select
import socket
import sys
import time

port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
rounds = moved = 0
r = random.Random(7)


def value(number, n):
    part = random.Random(number * 1000003 + n).randbytes(200)
    return part * (1 + (number + n) * 31 % 40)


class Connection:
    def __init__(self, number):
        self.number, self.n, self.got, self.want = number, 0, b'', b''
        self.socket = socket.create_connection(('127.0.0.1', port), 30)
        self.socket.setblocking(False)

    def ask(self):
        self.n += 1
        v = value(self.number, self.n)
        out = b'set %d 0 0 %d\r\n%s\r\nget %d\r\n' % (self.number, len(v), v, self.number)
        self.want = b'STORED\r\nVALUE %d 0 %d\r\n%s\r\nEND\r\n' % (self.number, len(v), v)
        self.got = b''
        assert self.socket.send(out) == len(out)
        return len(out)

    def readable(self):
        """Whether the answer is complete."""
        part = self.socket.recv(65536)
        assert part, f'connection {self.number} ended'
        self.got += part
        assert self.want.startswith(self.got), f'connection {self.number}, round {self.n}: bytes are altered'
        return len(self.got) == len(self.want)


every = []
epoll = select.epoll()
by_number = {}
for k in range(connections):
    c = Connection(k)
    every.append(c)
    by_number[c.socket.fileno()] = c
    epoll.register(c.socket, select.EPOLLIN)
begin = time.monotonic()
# Each connection at least four times, most of them more often.
while rounds < 4 * connections or time.monotonic() < begin + seconds:
    least = [c for c in every if c.n < 4]
    asked = least[:500] or r.sample(every, 500)
    waiting = len(asked)
    for c in asked:
        moved += c.ask()
    last = time.monotonic()
    while waiting:
        ready = epoll.poll(5, 256)
        assert ready or time.monotonic() - last < 20, f'{waiting} answers did not come in 20 s'
        for fd, events in ready:
            last = time.monotonic()
            assert events == select.EPOLLIN, events
            if by_number[fd].readable():
                moved += len(by_number[fd].got)
                waiting -= 1
    rounds += len(asked)
for c in every:
    c.socket.close()
print(f'{connections} connections, {rounds} questions, {moved} bytes checked')
