// net, http and cluster as Node programs use them, over loopback. Prints a TAP line a test.
'use strict';
const assert = require('assert');
const cluster = require('cluster');
const crypto = require('crypto');
const events = require('events');
const fs = require('fs');
const http = require('http');
const net = require('net');
const stream = require('stream');
const { spawn } = require('child_process');
const { promisify } = require('util');
const sleep = promisify(setTimeout);
const finished = promisify(stream.finished);
const pipeline = promisify(stream.pipeline);

const echo = () => net.createServer({ allowHalfOpen: true }, s => { s.setNoDelay(true); s.on('error', () => {}); s.pipe(s); });

if (process.argv[2] === 'serve') {
	const server = echo().listen(0, '127.0.0.1', () => console.log(server.address().port));
	process.stdin.on('end', () => process.exit(0)).resume();
	return;
}
if (cluster.isWorker) {
	http.createServer((request, response) => request.pipe(response)).listen(Number(process.env.PORT), '127.0.0.1');
	return;
}

let number = 0;
async function test(name, body) {
	let timer;
	try {
		const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error('takes longer than 60 s')), 60000); });
		await Promise.race([body(), late]);
		console.log(`ok ${++number} - ${name}`);
	} catch (error) {
		console.log(`not ok ${++number} - ${name}`);
		console.error(error);
	} finally {
		clearTimeout(timer);
	}
}

const listening = (server, ...where) => new Promise(yes => server.listen(0, '127.0.0.1', () => yes(server.address().port)));
const connected = async (port, options) => { const s = net.connect({ port, host: '127.0.0.1', ...options }); await events.once(s, 'connect'); return s; };

// Both ends, after some questions and answers: on another path than the kernel's where there is one.
async function pair(options) {
	const server = net.createServer({ allowHalfOpen: true, ...options });
	const port = await listening(server);
	const accepted = events.once(server, 'connection');
	const a = await connected(port, { allowHalfOpen: true });
	const [b] = await accepted;
	for (let i = 0; i < 20; i++) {
		a.write('q');
		await events.once(b, 'data');
		b.write('a');
		await events.once(a, 'data');
	}
	server.close();
	a.removeAllListeners('data');
	return [a, b];
}

async function exchange(port, connections, count, largest) {
	await Promise.all(Array.from({ length: connections }, async (_, c) => {
		const socket = await connected(port, { allowHalfOpen: true });
		const out = crypto.createHash('sha1'), back = crypto.createHash('sha1');
		socket.on('data', part => back.update(part));
		const ended = events.once(socket, 'end');
		for (let i = 0; i < count; i++) {
			const body = Buffer.alloc(1 + (i * 7919 + c * 104729) % largest, i);
			out.update(body);
			if (!socket.write(body))
				await events.once(socket, 'drain');
			if (i % 10 === 9)
				await sleep(0);
		}
		socket.end();
		await ended;
		assert.strictEqual(back.digest('hex'), out.digest('hex'));
	}));
}

async function get(port, options, body) {
	const request = http.request({ port, host: '127.0.0.1', method: 'POST', ...options });
	request.end(body);
	const [response] = await events.once(request, 'response');
	let text = '';
	for await (const part of response)
		text += part;
	return text;
}

(async () => {
	const here = echo(), herePort = await listening(here);
	await test('net: echo in one process', () => exchange(herePort, 20, 200, 5000));
	await test('net: echo in one process, large', () => exchange(herePort, 2, 50, 500000));

	const other = spawn(process.execPath, [__filename, 'serve'], { stdio: ['pipe', 'pipe', 'inherit'] });
	const port = Number(await events.once(other.stdout, 'data'));
	await test('net: echo of another process', () => exchange(port, 20, 400, 5000));
	await test('net: echo of another process, large', () => exchange(port, 2, 100, 500000));
	await test('net: one question at a time', async () => {
		const socket = await connected(port, { noDelay: true });
		for (let i = 0; i < 3000; i++) {
			socket.write(String(i));
			assert.strictEqual(String(await events.once(socket, 'data')), String(i));
		}
		socket.destroy();
	});
	await test('net: a server that is stopped and goes on', async () => {
		const socket = await connected(port);
		for (let i = 0; i < 20; i++) {
			socket.write('x');
			await events.once(socket, 'data');
		}
		other.kill('SIGSTOP');
		socket.write('while stopped');
		const early = await Promise.race([events.once(socket, 'data'), sleep(200)]);
		assert.strictEqual(early, undefined);
		const answer = events.once(socket, 'data');
		other.kill('SIGCONT');
		assert.strictEqual(String(await answer), 'while stopped');
		socket.destroy();
	});
	await test('net: a server that is killed', async () => {
		const socket = await connected(port);
		for (let i = 0; i < 20; i++) {
			socket.write('x');
			await events.once(socket, 'data');
		}
		const end = events.once(socket, 'close');
		socket.resume();
		socket.on('error', () => {});
		other.kill('SIGKILL');
		await end;
	});
	await test('net: half close', async () => {
		const [a, b] = await pair();
		let text = '';
		b.removeAllListeners('data');
		b.on('data', part => { text += part; });
		a.end('question');
		await events.once(b, 'end');
		assert.strictEqual(text, 'question');
		b.end('answer');
		a.setEncoding('utf8');
		assert.strictEqual((await a.toArray()).join(''), 'answer');
	});
	await test('net: reset', async () => {
		const [a, b] = await pair();
		const error = events.once(a, 'error');
		a.resume();
		b.resetAndDestroy();
		assert.strictEqual((await error)[0].code, 'ECONNRESET');
	});
	await test('net: pause and resume', async () => {
		const [a, b] = await pair();
		b.pause();
		for (let i = 0; i < 200; i++)
			a.write(Buffer.alloc(100000, 1));
		await sleep(100);
		assert(a.writableLength > 0, 'a reader that pauses holds the writer up');
		let n = 0;
		b.removeAllListeners('data');
		b.on('data', part => { n += part.length; });
		a.end();
		b.resume();
		await events.once(b, 'end');
		assert.strictEqual(n, 20000000);
		b.destroy();
	});
	await test('net: time-out', async () => {
		const [a, b] = await pair();
		a.setTimeout(100);
		await events.once(a, 'timeout');
		a.destroy();
		b.destroy();
	});
	await test('net: bytesRead and bytesWritten', async () => {
		const [a, b] = await pair();
		assert.deepStrictEqual([a.bytesRead, a.bytesWritten, b.bytesRead, b.bytesWritten], [20, 20, 20, 20]);
		a.destroy();
		b.destroy();
	});
	await test('net: cork', async () => {
		const [a, b] = await pair();
		a.cork();
		for (let i = 0; i < 100; i++)
			a.write(String(i % 10));
		a.uncork();
		let text = '';
		b.removeAllListeners('data');
		b.on('data', part => { text += part; });
		a.end();
		await events.once(b, 'end');
		assert.strictEqual(text, '0123456789'.repeat(10));
		b.destroy();
	});
	await test('net: destroyed with bytes under way', async () => {
		for (let i = 0; i < 30; i++) {
			const [a, b] = await pair();
			b.on('error', () => {});
			a.on('error', () => {});
			a.write(Buffer.alloc(1000000));
			b.write(Buffer.alloc(1000000));
			const closed = events.once(b, 'close');
			b.resume();
			a.destroy();
			b.end();
			await closed;
		}
	});
	await test('net: a socket that is handed to a child', async () => {
		const child = spawn(process.execPath, ['-e', `
			process.on('message', (m, s) => { s.on('data', d => s.write('child:' + d)); s.resume(); process.send('has it'); });
		`], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
		const [a, b] = await pair();
		b.removeAllListeners('data');
		b.pause();
		child.send('socket', b);
		await events.once(child, 'message');
		a.write('hello');
		assert.strictEqual(String(await events.once(a, 'data')), 'child:hello');
		a.destroy();
		child.kill();
	});
	await test('net: a descriptor as standard input of a child', async () => {
		const [a, b] = await pair();
		b.removeAllListeners('data');
		b.pause();
		const child = spawn('cat', [], { stdio: [b, 'pipe', 'inherit'] });
		a.end('through cat');
		assert.strictEqual((await child.stdout.toArray()).join(''), 'through cat');
		b.destroy();
	});

	const server = http.createServer((request, response) => request.pipe(response));
	const httpPort = await listening(server);
	await test('http: keep-alive, sizes', async () => {
		const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
		await Promise.all(Array.from({ length: 200 }, async (_, i) => {
			const body = 'y'.repeat(i * 997);
			assert.strictEqual(await get(httpPort, { agent }, body), body);
		}));
		agent.destroy();
	});
	await test('http: a connection a request', async () => {
		for (let i = 0; i < 100; i++)
			assert.strictEqual(await get(httpPort, { agent: false }, `body ${i}`), `body ${i}`);
	});
	await test('http: chunks with pauses', async () => {
		const request = http.request({ port: httpPort, host: '127.0.0.1', method: 'PUT' });
		const response = events.once(request, 'response');
		for (let i = 0; i < 50; i++) {
			request.write(`part ${i};`);
			await sleep(2);
		}
		request.end();
		let text = '';
		for await (const part of (await response)[0])
			text += part;
		assert.strictEqual(text.split(';').length, 51);
	});
	await test('http: pipelined requests', async () => {
		const socket = await connected(httpPort);
		socket.end('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab'.repeat(99) +
			'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nyz');
		const text = (await socket.toArray()).join('');
		assert.strictEqual(text.split('HTTP/1.1 200 OK').length, 101);
	});
	await test('http: a request that is given up', async () => {
		for (let i = 0; i < 20; i++) {
			const request = http.request({ port: httpPort, host: '127.0.0.1', method: 'POST' });
			request.on('error', () => {});
			request.write(Buffer.alloc(200000));
			await sleep(5);
			request.destroy();
		}
		assert.strictEqual(await get(httpPort, {}, 'still there'), 'still there');
	});
	await test('http: upgrade to a stream', async () => {
		const upgrading = http.createServer();
		upgrading.on('upgrade', (request, socket, head) => {
			socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n');
			socket.pipe(socket);
		});
		const to = await listening(upgrading);
		const request = http.request({ port: to, host: '127.0.0.1', headers: { Connection: 'Upgrade', Upgrade: 'echo' } });
		request.end();
		const [, socket] = await events.once(request, 'upgrade');
		for (let i = 0; i < 500; i++) {
			socket.write(`frame ${i}`);
			assert.strictEqual(String(await events.once(socket, 'data')), `frame ${i}`);
		}
		socket.destroy();
		upgrading.close();
	});
	await test('http: a proxy between', async () => {
		const proxy = net.createServer(from => {
			const to = net.connect(httpPort, '127.0.0.1');
			pipeline(from, to, from).catch(() => {});
		});
		const proxyPort = await listening(proxy);
		const agent = new http.Agent({ keepAlive: true, maxSockets: 3 });
		await Promise.all(Array.from({ length: 60 }, async (_, i) => {
			const body = 'p'.repeat(1 + i * 3001);
			assert.strictEqual(await get(proxyPort, { agent }, body), body);
		}));
		agent.destroy();
		proxy.close();
	});
	for (const [name, policy] of [['round robin', cluster.SCHED_RR], ['shared listener', cluster.SCHED_NONE]]) {
		await test(`cluster: three workers, ${name}`, async () => {
			cluster.schedulingPolicy = policy;
			const free = net.createServer(), freePort = await listening(free);
			free.close();
			await events.once(free, 'close');
			const workers = [1, 2, 3].map(() => cluster.fork({ PORT: String(freePort) }));
			await Promise.all(workers.map(worker => events.once(worker, 'listening')));
			const agent = new http.Agent({ keepAlive: true, maxSockets: 6 });
			await Promise.all(Array.from({ length: 120 }, async (_, i) => {
				const body = 'w'.repeat(i * 501);
				assert.strictEqual(await get(freePort, { agent }, body), body);
			}));
			agent.destroy();
			workers.forEach(worker => worker.kill());
			await Promise.all(workers.map(worker => events.once(worker, 'exit')));
		});
	}
	console.log(`1..${number}`);
	process.exit(0);
})();
