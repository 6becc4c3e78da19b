#!/usr/bin/env python3
"""A web server that behaves as it is told by the first part of the path. https.py CERT KEY FOLDER [plain]: prints its port.

/good/F      the file, ranges honoured
/cut/F       half of it, then the connection breaks; with a range, the rest
/norange/F   breaks the first time, then the whole with 200 although a range was asked for
/stall/F     some bytes, then nothing
/long/F      the file and more, no length stated
/altered/F   the file with a byte changed
/http/F      redirect to plain http
/loop/F      redirect to itself
/busy/F      503 twice, then the file
/missing/F   404
"""
import http.server, os, ssl, sys, time

cert, key, folder = sys.argv[1:4]
seen = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, format, *args):
        sys.stderr.write(self.path + ' ' + format % args + ' ' + str(self.headers.get('Range')) + '\n')
        sys.stderr.flush()

    def answer(self, status, body, headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if length is not False:
            self.send_header('Content-Length', str(len(body) if length is None else length))
        self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = True

    def do_GET(self):
        _, how, name = self.path.split('/', 2)
        seen[self.path] = seen.get(self.path, 0) + 1
        with open(os.path.join(folder, os.path.basename(name)), 'rb') as f:
            body = f.read()
        start = 0
        wanted = self.headers.get('Range')
        if wanted and wanted.startswith('bytes=') and wanted.endswith('-'):
            start = int(wanted[6:-1])
        rest = body[start:]
        headers = [('Content-Range', 'bytes %d-%d/%d' % (start, len(body) - 1, len(body)))] if start else []
        status = 206 if start else 200
        if how == 'good':
            self.answer(status, rest, headers)
        elif how == 'cut' and not start:
            self.answer(200, body[:len(body) // 2], length=len(body))
        elif how == 'cut':
            self.answer(206, rest, headers)
        elif how == 'norange':
            self.answer(200, body[:len(body) // 3] if seen[self.path] == 1 else body, length=len(body))
        elif how == 'stall':
            self.answer(200, body[:10], length=len(body))
            self.close_connection = False
            time.sleep(60)
        elif how == 'long':
            self.answer(200, body + b'x' * 100000, length=False)
        elif how == 'altered':
            self.answer(status, rest[:-1] + bytes([rest[-1] ^ 1]), headers)
        elif how == 'http':
            self.answer(302, b'', [('Location', 'http://127.0.0.1:1/' + name)])
        elif how == 'loop':
            self.answer(302, b'', [('Location', self.path)])
        elif how == 'busy' and seen[self.path] < 3:
            self.answer(503, b'')
        elif how == 'busy':
            self.answer(200, body)
        else:
            self.answer(404, b'')


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
server.daemon_threads = True
if len(sys.argv) < 5:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
