// A client of echo.js: net with the protocol of echo.py, http with an agent that keeps connections. echo_client.js PORT HTTP-PORT SECONDS
const net = require('net'), http = require('http'), crypto = require('crypto');
const [port, httpPort, seconds] = process.argv.slice(2).map(Number);
const until = Date.now() + seconds * 1000;
let messages = 0, moved = 0, running = 0;
const sizes = [0, 1, 100, 1000, 5000, 65536, 300000];
const fail = text => { console.log(text); process.exit(1); };
const done = () => { if (!--running) console.log(`${messages} messages, ${moved} bytes each way compared`); };
function connection(number) {
	running++;
	const s = net.connect(port, '127.0.0.1');
	let want = null, got = [], length = 0;
	const next = () => {
		if (Date.now() >= until) { s.end(); return; }
		const body = crypto.randomBytes(sizes[Math.floor(Math.random() * sizes.length)]), head = Buffer.alloc(4);
		head.writeUInt32BE(body.length);
		want = Buffer.concat([head, body]); got = []; length = 0;
		s.write(want);
	};
	s.on('connect', next);
	s.on('data', part => {
		got.push(part); length += part.length;
		if (length < want.length) return;
		if (!Buffer.concat(got).equals(want)) fail(`connection ${number}: an answer is altered`);
		messages++; moved += want.length;
		next();
	});
	s.on('end', done);
	s.on('error', e => fail(`connection ${number}: ${e.message}`));
}
const agent = new http.Agent({keepAlive: true, maxSockets: 4});
function post(number) {
	if (Date.now() >= until) { done(); return; }
	const body = crypto.randomBytes(1 + sizes[Math.floor(Math.random() * sizes.length)]);
	const request = http.request({port: httpPort, host: '127.0.0.1', method: 'POST', agent, headers: {'Content-Length': body.length}}, answer => {
		const got = [];
		answer.on('data', part => got.push(part));
		answer.on('end', () => {
			if (!Buffer.concat(got).equals(body)) fail('a body is altered');
			messages++; moved += body.length;
			post(number);
		});
	});
	request.on('error', e => fail(`http: ${e.message}`));
	request.end(body);
}
for (let i = 0; i < 8; i++) connection(i);
for (let i = 0; i < 4; i++) { running++; post(i); }
process.on('exit', () => agent.destroy());
