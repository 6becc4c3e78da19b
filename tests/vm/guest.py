#!/usr/bin/env python3
"""Talks to a machine by its guest agent: guest.py SOCKET wait SECONDS | run [-t SECONDS] COMMAND | put FILE PATH | reboot | poweroff

run: one line for bash as root; its output and exit status come back (124: out of time). Standard input goes in where -i is given.
"""
import base64
import json
import os
import socket
import sys
import time


class Agent:
    def __init__(self, path, timeout):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.lines = self.socket.makefile('rb')
        token = int(time.time() * 1000) & 0x7fffffff
        self.socket.sendall(b'\xff' + json.dumps({'execute': 'guest-sync-delimited', 'arguments': {'id': token}}).encode() + b'\n')
        while True:  # answers meant for an earlier client come first
            line = self.lines.readline()
            if not line:
                raise OSError('closed')
            line = line.split(b'\xff')[-1].strip()
            try:
                if line and json.loads(line).get('return') == token:
                    return
            except ValueError:
                pass

    def __call__(self, command, wait=True, **arguments):
        self.socket.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        if not wait:
            return None
        line = self.lines.readline()
        if not line:
            raise OSError('closed')
        answer = json.loads(line)
        if 'error' in answer:
            sys.exit('guest: %s' % answer['error'])
        return answer['return']


def wait(path, seconds):
    end = time.time() + seconds
    while time.time() < end:
        try:
            Agent(path, 2)
            return
        except (OSError, socket.timeout):
            time.sleep(0.2)
    sys.exit('guest: no answer within %g s' % seconds)


def run(path, line, seconds, data):
    agent = Agent(path, 30)
    agent.socket.settimeout(60)
    arguments = {'path': '/bin/bash', 'arg': ['-c', line], 'capture-output': True,
                 'env': ['HOME=/root', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C.UTF-8']}
    if data is not None:
        arguments['input-data'] = base64.b64encode(data).decode()
    pid = agent('guest-exec', **arguments)['pid']
    end, pause = time.time() + seconds, 0.02
    while True:
        state = agent('guest-exec-status', pid=pid)
        if state['exited']:
            break
        if time.time() > end:
            agent('guest-exec', path='/bin/kill', arg=['-9', str(pid)])
            print('guest: out of time (%g s): %s' % (seconds, line), file=sys.stderr)
            sys.exit(124)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
    for key, stream in (('out-data', sys.stdout), ('err-data', sys.stderr)):
        stream.buffer.write(base64.b64decode(state.get(key, '')))
        stream.flush()
    sys.exit(state['exitcode'] if 'exitcode' in state else 128 + state.get('signal', 0))


def put(path, source, target):
    agent = Agent(path, 60)
    handle = agent('guest-file-open', path=target, mode='w')
    with open(source, 'rb') as f:
        while data := f.read(49152):
            agent('guest-file-write', handle=handle, **{'buf-b64': base64.b64encode(data).decode()})
    agent('guest-file-close', handle=handle)


def main():
    path, verb, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    if verb == 'wait':
        wait(path, float(arguments[0]))
    elif verb == 'run':
        seconds, data = 120.0, None
        while arguments[0] in ('-t', '-i'):
            if arguments.pop(0) == '-t':
                seconds = float(arguments.pop(0))
            else:
                data = sys.stdin.buffer.read()
        run(path, ' '.join(arguments), seconds, data)
    elif verb == 'put':
        put(path, arguments[0], arguments[1])
    elif verb in ('reboot', 'poweroff'):
        Agent(path, 30)('guest-shutdown', wait=False, mode={'reboot': 'reboot', 'poweroff': 'powerdown'}[verb])
        time.sleep(0.5)
    else:
        sys.exit('guest: no verb %s' % verb)


main()
