# Asks HTTP servers for files over kept connections and compares every body with the file.
#   get.py FOLDER SECONDS THREADS URL...    files of FOLDER under each URL
# A kept connection that the server closes between two answers is opened again, as every client does; nothing else may fail.
import http.client
import os
import random
import ssl
import sys
import threading
import time
import urllib.parse

folder, seconds, threads, urls = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
files = {name: open(os.path.join(folder, name), 'rb').read() for name in sorted(os.listdir(folder))}
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
counts = {'answers': 0, 'bytes': 0, 'reopened': 0}
failed = []


def work(number):
    r = random.Random(number)
    url = urllib.parse.urlsplit(urls[number % len(urls)])
    until = time.monotonic() + seconds
    connection, used = None, 0
    while time.monotonic() < until and not failed:
        if not connection or r.random() < .02:
            if connection:
                connection.close()
            connection, used = (http.client.HTTPSConnection(url.hostname, url.port, timeout=30, context=context) if url.scheme == 'https'
                                else http.client.HTTPConnection(url.hostname, url.port, timeout=30)), 0
        name = r.choice(list(files))
        want, head = files[name], {}
        if r.random() < .3:
            first = r.randrange(len(want))
            want, head = want[first:], {'Range': f'bytes={first}-'}
        try:
            connection.request('GET', f'{url.path}/{name}', headers=head)
            answer = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not used:
                raise
            connection = None
            counts['reopened'] += 1
            continue
        assert answer.status in (200, 206), (name, answer.status)
        body = b''
        while len(body) < len(want):
            part = answer.read(r.choice((1000, 65536, 1 << 20)))
            assert part, f'{name} from {url.netloc}: {len(body)} bytes of {len(want)}'
            body += part
        assert body == want and not answer.read(), f'{name} from {url.netloc} is altered'
        used += 1
        counts['answers'] += 1
        counts['bytes'] += len(body)
        if answer.will_close:
            connection.close()
            connection = None


def guarded(number):
    try:
        work(number)
    except BaseException as e:  # the first one is told, all end
        failed.append(f'{urls[number % len(urls)]}: {type(e).__name__}: {e}')


every = [threading.Thread(target=guarded, args=(k,)) for k in range(threads)]
[t.start() for t in every]
[t.join() for t in every]
if failed:
    sys.exit('\n'.join(failed))
print(f"{counts['answers']} answers, {counts['bytes']} bytes compared, {counts['reopened']} connections opened again")
