// The echo of echo.py by node, and its http: echo.js PORT HTTP-PORT. A request's body comes back as the answer's.
const net = require('net'), http = require('http');
const [port, httpPort] = process.argv.slice(2).map(Number);
net.createServer({allowHalfOpen: true}, s => {
	s.on('error', e => { console.log(e.message); process.exit(1); });
	s.pipe(s);
}).listen(port, '127.0.0.1', 512);
const server = http.createServer((request, answer) => {
	answer.writeHead(200, request.headers['content-length'] ? {'Content-Length': request.headers['content-length']} : {});
	request.pipe(answer);
});
server.keepAliveTimeout = 60000;
server.listen(httpPort, '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
