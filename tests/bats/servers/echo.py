# An echo server and clients that check what comes back, in the ways in which Python does it.
#   echo.py serve asyncio|threads PORT
#   echo.py ask asyncio|threads|files PORT CONNECTIONS SECONDS
# The protocol of all programs named echo.* here: a message is its length in four bytes, most significant first, and as many
# bytes; the answer is the same message. The client ends its direction first and reads the end.
import asyncio
import random
import socket
import struct
import sys
import threading
import time

what, how, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
moved = messages = 0
count = threading.Lock()


def sizes(r):
    return r.choice((0, 1, 100, 1000, 5000, 65536, 300000))


def message(r):
    n = sizes(r)
    return struct.pack('>I', n) + r.randbytes(n)


def add(n):
    global moved, messages
    with count:
        moved += n
        messages += 1


async def answer(reader, writer):
    try:
        while True:
            head = await reader.readexactly(4)
            writer.write(head + await reader.readexactly(struct.unpack('>I', head)[0]))
            await writer.drain()
    except asyncio.IncompleteReadError as e:
        assert not e.partial, 'the stream ended within a message'
    writer.close()


async def serve():
    server = await asyncio.start_server(answer, '127.0.0.1', port, backlog=512, limit=1 << 20)
    await server.serve_forever()


def exactly(s, n):
    got = bytearray()
    while len(got) < n:
        part = s.recv(n - len(got))
        if not part:
            assert not got, 'the stream ended within a message'
            return None
        got += part
    return bytes(got)


def answer_blocking(s):
    while head := exactly(s, 4):
        n = struct.unpack('>I', head)[0]
        s.sendall(head + (exactly(s, n) if n else b''))
    s.close()


def serve_threads():
    listener = socket.create_server(('127.0.0.1', port), backlog=512)
    while True:
        threading.Thread(target=answer_blocking, args=(listener.accept()[0],), daemon=True).start()


async def ask(number, until):
    r = random.Random(number)
    reader, writer = await asyncio.open_connection('127.0.0.1', port, limit=1 << 20)
    while time.monotonic() < until:
        batch = [message(r) for _ in range(r.choice((1, 1, 1, 5)))]
        writer.write(b''.join(batch))
        for m in batch:
            got = await reader.readexactly(len(m))
            assert got == m, f'connection {number}: an answer is altered'
            add(len(m))
        await writer.drain()
    writer.write_eof()
    assert await reader.read() == b'', 'bytes after the last answer'
    writer.close()


def ask_blocking(number, until):
    r = random.Random(number)
    s = socket.create_connection(('127.0.0.1', port), 60)
    f = s.makefile('rwb') if how == 'files' else None
    while time.monotonic() < until and not failed:
        m = message(r)
        if f:
            f.write(m)
            f.flush()
            got = f.read(len(m))
        elif len(m) > 60000:  # more than anybody buffers must not be needed, but another thread may send
            t = threading.Thread(target=s.sendall, args=(m,))
            t.start()
            got = exactly(s, len(m))
            t.join()
        else:
            s.sendall(m)
            got = exactly(s, len(m))
        assert got == m, f'connection {number}: an answer is altered'
        add(len(m))
    s.shutdown(socket.SHUT_WR)
    assert (f.read() if f else s.recv(100)) == b'', 'bytes after the last answer'
    s.close()


def guarded(number, until):
    try:
        ask_blocking(number, until)
    except BaseException as e:
        failed.append(f'{type(e).__name__}: {e}')


failed = []
if what == 'serve':
    asyncio.run(serve()) if how == 'asyncio' else serve_threads()
else:
    connections, until = int(sys.argv[4]), time.monotonic() + float(sys.argv[5])
    if how == 'asyncio':
        async def everything():
            await asyncio.gather(*(ask(k, until) for k in range(connections)))
        asyncio.run(everything())
    else:
        every = [threading.Thread(target=guarded, args=(k, until)) for k in range(connections)]
        [t.start() for t in every]
        [t.join() for t in every]
    if failed:
        sys.exit('\n'.join(failed))
    print(f'{messages} messages, {moved} bytes each way compared')
