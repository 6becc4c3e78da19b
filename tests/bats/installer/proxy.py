#!/usr/bin/env python3
"""A proxy that knows CONNECT and says where to. proxy.py: prints its port, then a line a connection."""
import socket, threading


def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(client):
    head = b''
    while b'\r\n\r\n' not in head:
        more = client.recv(4096)
        if not more:
            return
        head += more
    method, target, _ = head.split(b'\r\n', 1)[0].decode().split()
    print(method, target, flush=True)
    host, port = target.rsplit(':', 1)
    server = socket.create_connection((host, int(port)))
    client.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)


listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
