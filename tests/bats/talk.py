# A server and a client for tests that look at connections while they are open.
#   talk.py serve ADDRESS PORT           answers for ever
#   talk.py fork ADDRESS PORT            the same, after a child was forked while a thread waited in accept
#   talk.py ask ADDRESS PORT N           N connections, traffic on each, prints "talked", then goes on until killed
import os
import socket
import sys
import threading
import time


def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET


def answer(s):
    while True:
        data = s.recv(65536)
        if not data:
            return
        s.sendall(data)


def talk(s, rounds):
    for i in range(rounds):
        out = bytes((i + k) % 251 for k in range(500 + i))
        s.sendall(out)
        got = b''
        while len(got) < len(out):
            part = s.recv(65536)
            if not part:
                sys.exit('the connection ended')
            got += part
        if got != out:
            sys.exit('bytes were altered')


if sys.argv[1] in ('serve', 'fork'):
    listener = socket.socket(family(sys.argv[2]))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((sys.argv[2], int(sys.argv[3])))
    listener.listen(64)
    if sys.argv[1] == 'fork':
        def fork():
            time.sleep(0.3)
            if os.fork() == 0:
                time.sleep(60)
        threading.Thread(target=fork, daemon=True).start()
    while True:
        s = listener.accept()[0]
        threading.Thread(target=answer, args=(s,), daemon=True).start()
else:
    open_connections = []
    for _ in range(int(sys.argv[4])):
        s = socket.create_connection((sys.argv[2], int(sys.argv[3])), 20)
        s.settimeout(None)
        open_connections.append(s)
        talk(s, 100)
    print('talked', flush=True)
    while True:
        for s in open_connections:
            talk(s, 1)
        time.sleep(0.02)
