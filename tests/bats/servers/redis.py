# Clients of Redis that check every answer.
#   redis.py values PORT CONNECTIONS SECONDS [killed]   what was set is what comes back; "killed": the server may end connections
#   redis.py follow PORT SUBSCRIBERS MESSAGES           subscribers and MONITOR see every message once and in order
import asyncio
import random
import sys
import time

port, connections = int(sys.argv[2]), int(sys.argv[3])
commands = moved = again = 0


def value(key, n):
    if n is None:
        return None
    r = random.Random(f'{key}/{n}')
    size = r.choice((10, 100, 1000, 5000, 20000)) if n % 50 else 700000
    part = r.randbytes(min(size, 997))
    return (part * (size // len(part) + 1))[:size]


def command(*words):
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words)


async def reply(reader):
    line = await reader.readuntil(b'\r\n')
    kind, rest = line[:1], line[1:-2]
    if kind == b'$':
        return None if rest == b'-1' else (await reader.readexactly(int(rest) + 2))[:-2]
    if kind == b'*':
        return [await reply(reader) for _ in range(int(rest))]
    if kind == b'-':
        sys.exit(f'an error from the server: {rest}')
    return rest


async def connect():
    return await asyncio.open_connection('127.0.0.1', port, limit=1 << 21)


async def one(number, until, killed):
    global commands, moved, again
    r = random.Random(number)
    may_be = {}  # of each key the numbers of the values that it may have
    n = 0
    while time.monotonic() < until:
        try:
            reader, writer = await connect()
            while time.monotonic() < until:
                batch, out = [], []
                for _ in range(r.choice((1, 1, 4, 16))):
                    key = b'%d:%d' % (number, r.randrange(20))
                    if key in may_be and r.random() < .4:
                        batch.append((key, None, list(may_be[key])))
                        out.append(command(b'GET', key))
                    else:
                        n += 1
                        before = may_be.get(key, [None])
                        may_be[key] = [*before, n]
                        batch.append((key, n, None))
                        out.append(command(b'SET', key, value(key, n)))
                out = b''.join(out)
                writer.write(out)
                sent = asyncio.ensure_future(writer.drain())
                for key, put, allowed in batch:
                    got = await reply(reader)
                    if put:
                        assert got == b'OK', got
                        may_be[key] = may_be[key][may_be[key].index(put):]
                    else:
                        assert got in [value(key, a) for a in allowed], f'{key}: {len(got or b"")} bytes are not what was set'
                        moved += len(got or b'')
                    commands += 1
                await sent
                moved += len(out)
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            if not killed:
                raise
            again += 1


async def values():
    seconds, killed = float(sys.argv[4]), len(sys.argv) > 5
    until = time.monotonic() + seconds
    await asyncio.gather(*(one(k, until, killed) for k in range(connections)))
    print(f'{commands} commands, {moved} bytes checked, {again} reconnected')


async def follow():
    messages = int(sys.argv[4])
    ready = 0

    def payload(i):
        return b'%d:' % i + b'x' * (i * 37 % 3000)

    async def subscriber():
        nonlocal ready
        reader, writer = await connect()
        writer.write(command(b'SUBSCRIBE', b'news'))
        await reply(reader)
        ready += 1
        for i in range(messages):
            got = await reply(reader)
            assert got == [b'message', b'news', payload(i)], (i, got)
        writer.close()

    async def monitor():
        nonlocal ready
        reader, writer = await connect()
        writer.write(command(b'MONITOR'))
        assert await reply(reader) == b'OK'
        ready += 1
        for i in range(messages):
            line = b''
            while b'"PUBLISH"' not in line:
                line = await reply(reader)
            assert line.endswith(b'"PUBLISH" "news" "%s"' % payload(i)), (i, line)
        writer.close()

    followers = [asyncio.ensure_future(f()) for f in [subscriber] * connections + [monitor] * 2]
    while ready < len(followers):
        await asyncio.sleep(.01)
    reader, writer = await connect()
    for i in range(messages):
        writer.write(command(b'PUBLISH', b'news', payload(i)))
        if i % 50 == 49 or i == messages - 1:
            await writer.drain()
            for _ in range(i % 50 + 1):
                assert await reply(reader) == b'%d' % connections
    await asyncio.gather(*followers)
    print(f'{messages} messages to {len(followers)} followers')


asyncio.run(values() if sys.argv[1] == 'values' else follow())
