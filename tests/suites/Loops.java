// An echo service as event-loop frameworks write it: an accepting loop, working loops with a selector each, pipelines with a
// frame decoder, write queues with marks; then java.net, channels that are closed and interrupted, asynchronous channels
// and the JDK's own HTTP. Prints a TAP line a test. With "serve" it is the other process.
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.zip.CRC32;

public class Loops {
	static final InetAddress LOCAL = InetAddress.getLoopbackAddress();

	/** One thread with one selector; other threads hand it tasks and wake it. */
	static class Loop extends Thread {
		final Selector selector;
		final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
		volatile boolean over;

		Loop(String name) throws IOException {
			super(name);
			setDaemon(true);
			selector = Selector.open();
			start();
		}

		void execute(Runnable task) {
			tasks.add(task);
			selector.wakeup();
		}

		@Override
		public void run() {
			while (!over) {
				try {
					selector.select(500);
					for (Runnable task; (task = tasks.poll()) != null;)
						task.run();
					for (Iterator<SelectionKey> i = selector.selectedKeys().iterator(); i.hasNext();) {
						SelectionKey key = i.next();
						i.remove();
						if (!key.isValid())
							continue;
						if (key.isAcceptable())
							((Acceptor)key.attachment()).accept();
						else
							((Connection)key.attachment()).ready(key.readyOps());
					}
				} catch (IOException | CancelledKeyException e) {
					// a connection that ended under us; its own handler has said so
				}
			}
		}
	}

	interface Handler {
		void frame(Connection c, ByteBuffer frame) throws IOException;

		default void ended(Connection c, IOException why) { }
	}

	/** A channel in a loop: frames of a 4-byte length in, a queue of buffers out. Reading pauses above the high mark. */
	static class Connection {
		static final int HIGH = 1 << 18;
		final SocketChannel channel;
		final SelectionKey key;
		final Handler handler;
		final ArrayDeque<ByteBuffer> queue = new ArrayDeque<>();
		ByteBuffer in = ByteBuffer.allocateDirect(1 << 16);
		int queued;
		boolean ending;

		Connection(Loop loop, SocketChannel channel, Handler handler) throws IOException {
			this.channel = channel;
			this.handler = handler;
			channel.configureBlocking(false);
			key = channel.register(loop.selector, SelectionKey.OP_READ, this);
		}

		void ready(int ops) {
			try {
				if ((ops & SelectionKey.OP_CONNECT) != 0 && channel.finishConnect() || (ops & SelectionKey.OP_WRITE) != 0)
					flush();
				if ((ops & SelectionKey.OP_READ) != 0)
					read();
			} catch (IOException e) {
				close(e);
			}
		}

		void read() throws IOException {
			int n = channel.read(in);
			in.flip();
			while (in.remaining() >= 4) {
				int length = in.getInt(in.position());
				if (in.remaining() < 4 + length)
					break;
				ByteBuffer frame = in.slice(in.position() + 4, length);
				handler.frame(this, frame);
				in.position(in.position() + 4 + length);
			}
			in.compact();
			if (!in.hasRemaining() || in.position() >= 4 && in.getInt(0) + 4 > in.capacity()) {
				ByteBuffer larger = ByteBuffer.allocateDirect(Math.max(in.capacity() * 2, in.getInt(0) + 4));
				in.flip();
				in = larger.put(in);
			}
			if (n < 0) {
				ending = true;
				flush();
			}
		}

		void write(ByteBuffer frame) throws IOException {
			ByteBuffer copy = ByteBuffer.allocate(4 + frame.remaining()).putInt(frame.remaining()).put(frame.duplicate());
			queue.add(copy.flip());
			queued += copy.remaining();
			flush();
		}

		void flush() throws IOException {
			while (!queue.isEmpty()) {
				// several buffers in one call, as frameworks gather them
				ByteBuffer[] some = queue.stream().limit(8).toArray(ByteBuffer[]::new);
				long n = channel.write(some);
				queued -= (int)n;
				while (!queue.isEmpty() && !queue.peek().hasRemaining())
					queue.poll();
				if (n == 0)
					break;
			}
			if (queue.isEmpty() && ending) {
				close(null);
				return;
			}
			int ops = queue.isEmpty() ? 0 : SelectionKey.OP_WRITE;
			if (queued < HIGH && !ending)
				ops |= SelectionKey.OP_READ;
			if (key.interestOps() != ops)
				key.interestOps(ops);
		}

		void close(IOException why) {
			key.cancel();
			try {
				channel.close();
			} catch (IOException e) {
				why = why == null ? e : why;
			}
			handler.ended(this, why);
		}
	}

	static class Acceptor {
		final ServerSocketChannel listening;
		final Loop[] workers;
		final Handler handler;
		int next;

		Acceptor(Loop boss, Loop[] workers, Handler handler) throws Exception {
			this.workers = workers;
			this.handler = handler;
			listening = ServerSocketChannel.open().bind(new InetSocketAddress(LOCAL, 0), 1024);
			listening.configureBlocking(false);
			CountDownLatch done = new CountDownLatch(1);
			boss.execute(() -> {
				try {
					listening.register(boss.selector, SelectionKey.OP_ACCEPT, this);
				} catch (IOException e) {
					throw new UncheckedIOException(e);
				}
				done.countDown();
			});
			done.await();
		}

		void accept() throws IOException {
			for (SocketChannel c; (c = listening.accept()) != null;) {
				SocketChannel accepted = c;
				accepted.setOption(StandardSocketOptions.TCP_NODELAY, true);
				Loop loop = workers[next++ % workers.length];
				loop.execute(() -> {
					try {
						new Connection(loop, accepted, handler);
					} catch (IOException e) {
						throw new UncheckedIOException(e);
					}
				});
			}
		}

		int port() throws IOException {
			return ((InetSocketAddress)listening.getLocalAddress()).getPort();
		}
	}

	static Acceptor serve() throws Exception {
		return new Acceptor(new Loop("boss"), new Loop[] { new Loop("worker-0"), new Loop("worker-1") }, (c, frame) -> c.write(frame));
	}

	/** CONNECTIONS at once, each WINDOW frames in flight, checked byte by byte as they come back. */
	static void exchange(int port, int connections, int frames, int window, int largest) throws Exception {
		Loop[] loops = { new Loop("client-0"), new Loop("client-1") };
		CountDownLatch done = new CountDownLatch(connections);
		AtomicReference<String> wrong = new AtomicReference<>();
		for (int i = 0; i < connections; i++) {
			Loop loop = loops[i % 2];
			Random random = new Random(i);
			ArrayDeque<byte[]> expected = new ArrayDeque<>();
			int[] sent = { 0 }, got = { 0 };
			Handler handler = new Handler() {
				void send(Connection c) throws IOException {
					byte[] body = new byte[1 + random.nextInt(largest)];
					random.nextBytes(body);
					expected.add(body);
					sent[0]++;
					c.write(ByteBuffer.wrap(body));
				}

				@Override
				public void frame(Connection c, ByteBuffer frame) throws IOException {
					byte[] body = new byte[frame.remaining()];
					frame.get(body);
					if (got[0] == 0 && body.length == 1 && expected.isEmpty()) {
						// the first frame only starts the rest
						while (sent[0] < Math.min(window, frames))
							send(c);
						return;
					}
					if (!Arrays.equals(body, expected.poll()))
						wrong.compareAndSet(null, "frame " + got[0] + " is altered");
					if (++got[0] == frames)
						c.channel.shutdownOutput();
					else if (sent[0] < frames)
						send(c);
				}

				@Override
				public void ended(Connection c, IOException why) {
					if (got[0] != frames || why != null)
						wrong.compareAndSet(null, "ended after " + got[0] + " of " + frames + ": " + why);
					done.countDown();
				}
			};
			SocketChannel channel = SocketChannel.open();
			channel.configureBlocking(false);
			boolean connected = channel.connect(new InetSocketAddress(LOCAL, port));
			loop.execute(() -> {
				try {
					Connection c = new Connection(loop, channel, handler);
					c.queue.add(ByteBuffer.wrap(new byte[] { 0, 0, 0, 1, 7 }));
					c.queued = 5;
					if (connected)
						c.flush();
					else
						c.key.interestOps(SelectionKey.OP_CONNECT);
				} catch (IOException e) {
					wrong.compareAndSet(null, e.toString());
				}
			});
		}
		if (!done.await(60, TimeUnit.SECONDS))
			wrong.compareAndSet(null, done.getCount() + " connections do not end");
		for (Loop loop : loops)
			loop.over = true;
		check(wrong.get() == null, wrong.get());
	}

	static int number;

	interface Body {
		void run() throws Exception;
	}

	static void test(String name, Body body) {
		try {
			body.run();
			System.out.println("ok " + ++number + " - " + name);
		} catch (Throwable e) {
			System.out.println("not ok " + ++number + " - " + name);
			e.printStackTrace();
		}
	}

	static void check(boolean right, String otherwise) {
		if (!right)
			throw new AssertionError(otherwise);
	}

	static <T extends Throwable> void expect(Class<T> kind, Body body) throws Exception {
		try {
			body.run();
		} catch (Throwable e) {
			check(kind == e.getClass(), kind + " was expected, not " + e);
			return;
		}
		throw new AssertionError(kind + " was expected");
	}

	interface Both {
		void run(Socket a, Socket b) throws Exception;
	}

	/** A pair of connected sockets that have exchanged enough to be on another path than the kernel's, where there is one. */
	static void pair(Both body) throws Exception {
		try (ServerSocket s = new ServerSocket(0, 50, LOCAL); Socket a = new Socket(LOCAL, s.getLocalPort()); Socket b = s.accept()) {
			a.setTcpNoDelay(true);
			for (int i = 0; i < 20; i++) {
				a.getOutputStream().write(i);
				check(b.getInputStream().read() == i, "warming up");
				b.getOutputStream().write(i);
				check(a.getInputStream().read() == i, "warming up");
			}
			body.run(a, b);
		}
	}

	interface Channels {
		void run(SocketChannel a, SocketChannel b) throws Exception;
	}

	static void channels(Channels body) throws Exception {
		try (ServerSocketChannel s = ServerSocketChannel.open().bind(new InetSocketAddress(LOCAL, 0));
			 SocketChannel a = SocketChannel.open(s.getLocalAddress()); SocketChannel b = s.accept()) {
			ByteBuffer one = ByteBuffer.allocate(1);
			for (int i = 0; i < 20; i++) {
				a.write(one.rewind());
				b.read(one.rewind());
				b.write(one.rewind());
				a.read(one.rewind());
			}
			body.run(a, b);
		}
	}

	static Thread later(long ms, Body body) {
		Thread t = new Thread(() -> {
			try {
				Thread.sleep(ms);
				body.run();
			} catch (Exception e) {
				e.printStackTrace();
			}
		});
		t.start();
		return t;
	}

	public static void main(String[] arguments) throws Exception {
		if (arguments.length > 0) {
			System.out.println(serve().port());
			System.in.read();
			System.exit(0);
		}
		Acceptor here = serve();
		test("loops in one process: 50 connections, small frames", () -> exchange(here.port(), 50, 200, 4, 200));
		test("loops in one process: back pressure", () -> exchange(here.port(), 4, 100, 50, 100000));
		Process other = new ProcessBuilder(ProcessHandle.current().info().command().get(), "-cp", System.getProperty("java.class.path"),
			"Loops", "serve").redirectError(ProcessBuilder.Redirect.INHERIT).start();
		int port = Integer.parseInt(new BufferedReader(new InputStreamReader(other.getInputStream())).readLine());
		test("loops of two processes: 50 connections, small frames", () -> exchange(port, 50, 400, 4, 200));
		test("loops of two processes: back pressure", () -> exchange(port, 4, 200, 50, 100000));
		test("loops of two processes: one frame at a time", () -> exchange(port, 1, 5000, 1, 64));
		test("the other process is killed", () -> {
			try (Socket s = new Socket(LOCAL, port)) {
				DataOutputStream out = new DataOutputStream(s.getOutputStream());
				DataInputStream in = new DataInputStream(s.getInputStream());
				for (int i = 0; i < 50; i++) {
					out.writeInt(4);
					out.writeInt(i);
					check(in.readInt() == 4 && in.readInt() == i, "echo");
				}
				other.destroyForcibly().waitFor();
				check(in.read() == -1, "end of stream");
			}
		});
		test("java.net: time-out of a read", () -> pair((a, b) -> {
			a.setSoTimeout(100);
			expect(SocketTimeoutException.class, () -> a.getInputStream().read());
			b.getOutputStream().write(5);
			check(a.getInputStream().read() == 5, "after the time-out");
		}));
		test("java.net: available", () -> pair((a, b) -> {
			check(a.getInputStream().available() == 0, "nothing");
			b.getOutputStream().write(new byte[1000]);
			Thread.sleep(50);
			check(a.getInputStream().available() == 1000, "available " + a.getInputStream().available());
		}));
		test("java.net: close in another thread ends a read", () -> pair((a, b) -> {
			Thread t = later(100, a::close);
			expect(SocketException.class, () -> a.getInputStream().read());
			t.join();
			check(b.getInputStream().read() == -1, "the end");
		}));
		test("java.net: half close", () -> pair((a, b) -> {
			a.getOutputStream().write("question".getBytes());
			a.shutdownOutput();
			check(new String(b.getInputStream().readAllBytes()).equals("question"), "question");
			b.getOutputStream().write("answer".getBytes());
			b.close();
			check(new String(a.getInputStream().readAllBytes()).equals("answer"), "answer");
			expect(SocketException.class, () -> a.getOutputStream().write(1));
		}));
		test("java.net: reset", () -> pair((a, b) -> {
			b.setSoLinger(true, 0);
			b.close();
			expect(SocketException.class, () -> a.getInputStream().read());
		}));
		test("java.net: urgent data inline", () -> pair((a, b) -> {
			b.setOOBInline(true);
			a.sendUrgentData('u');
			check(b.getInputStream().read() == 'u', "urgent byte");
		}));
		test("java.net: object streams", () -> pair((a, b) -> {
			ObjectOutputStream out = new ObjectOutputStream(a.getOutputStream());
			out.writeObject(Map.of("key", new int[100000]));
			out.flush();
			Map<?, ?> map = (Map<?, ?>)new ObjectInputStream(b.getInputStream()).readObject();
			check(((int[])map.get("key")).length == 100000, "object");
		}));
		test("channel: close in another thread", () -> channels((a, b) -> {
			Thread t = later(100, a::close);
			expect(AsynchronousCloseException.class, () -> a.read(ByteBuffer.allocate(10)));
			t.join();
			check(b.read(ByteBuffer.allocate(10)) == -1, "the end");
		}));
		test("channel: interrupt", () -> channels((a, b) -> {
			Thread me = Thread.currentThread(), t = later(100, me::interrupt);
			expect(ClosedByInterruptException.class, () -> a.read(ByteBuffer.allocate(10)));
			t.join();
			Thread.interrupted();
		}));
		test("channel: a writer without room is closed", () -> channels((a, b) -> {
			Thread t = later(300, a::close);
			ByteBuffer large = ByteBuffer.allocateDirect(64 << 20);
			try {
				while (large.hasRemaining())
					a.write(large);
				check(false, "64 MiB fitted");
			} catch (ClosedChannelException e) {
				// inside the call (AsynchronousCloseException) or at the next one
			}
			t.join();
		}));
		test("channel: gather and scatter", () -> channels((a, b) -> {
			ByteBuffer[] out = { ByteBuffer.wrap("ab".getBytes()), ByteBuffer.allocate(0), ByteBuffer.wrap("cdef".getBytes()) };
			check(a.write(out) == 6, "write");
			ByteBuffer[] in = { ByteBuffer.allocate(1), ByteBuffer.allocate(3), ByteBuffer.allocate(2) };
			long n = 0;
			while (n < 6)
				n += b.read(in);
			check(new String(in[0].array()).equals("a") && new String(in[1].array()).equals("bcd") && new String(in[2].array()).equals("ef"), "parts");
		}));
		test("channel: transferTo and transferFrom", () -> channels((a, b) -> {
			Path from = Files.createTempFile("loops", ".from"), to = Files.createTempFile("loops", ".to");
			byte[] body = new byte[3000000];
			new Random(1).nextBytes(body);
			Files.write(from, body);
			Thread t = later(0, () -> {
				try (FileChannel f = FileChannel.open(from)) {
					for (long at = 0; at < body.length;)
						at += f.transferTo(at, body.length - at, a);
				}
				a.shutdownOutput();
			});
			try (FileChannel f = FileChannel.open(to, StandardOpenOption.WRITE)) {
				long at = 0;
				for (long n; (n = f.transferFrom(b, at, 1 << 20)) > 0;)
					at += n;
			}
			t.join();
			check(Files.mismatch(from, to) == -1, "files differ");
		}));
		test("selector: level readiness, wakeup, selectNow, cancel", () -> channels((a, b) -> {
			try (Selector s = Selector.open()) {
				b.configureBlocking(false);
				SelectionKey key = b.register(s, SelectionKey.OP_READ);
				check(s.selectNow() == 0, "nothing to read");
				Thread t = later(100, s::wakeup);
				check(s.select() == 0, "woken");
				t.join();
				a.write(ByteBuffer.wrap(new byte[10]));
				for (int i = 0; i < 3; i++) {
					check(s.select(1000) == 1 && key.isReadable(), "readable " + i);
					s.selectedKeys().clear();
				}
				check(b.read(ByteBuffer.allocate(5)) == 5 && s.select(1000) == 1, "rest");
				s.selectedKeys().clear();
				check(b.read(ByteBuffer.allocate(50)) == 5 && s.selectNow() == 0, "drained");
				key.interestOps(SelectionKey.OP_WRITE);
				check(s.select(1000) == 1 && key.isWritable() && !key.isReadable(), "writable");
				s.selectedKeys().clear();
				ByteBuffer large = ByteBuffer.allocate(1 << 20);
				while (b.write(large.rewind()) > 0)
					;
				check(s.selectNow() == 0, "full");
				Thread drain = later(50, () -> {
					ByteBuffer in = ByteBuffer.allocate(1 << 20);
					while (a.read(in.clear()) > 0)
						;
				});
				check(s.select(5000) == 1, "room again");
				key.cancel();
				check(s.selectNow() == 0 && s.keys().isEmpty(), "cancelled");
				b.configureBlocking(true);
				b.close();
				drain.join();
			}
		}));
		test("selector: one channel in two selectors", () -> channels((a, b) -> {
			try (Selector r = Selector.open(); Selector w = Selector.open()) {
				b.configureBlocking(false);
				b.register(r, SelectionKey.OP_READ);
				b.register(w, SelectionKey.OP_WRITE);
				check(w.select(1000) == 1 && r.selectNow() == 0, "writable only");
				Thread t = later(100, () -> a.write(ByteBuffer.wrap(new byte[1])));
				check(r.select(5000) == 1, "readable");
				t.join();
			}
		}));
		test("asynchronous channels", () -> {
			try (AsynchronousServerSocketChannel s = AsynchronousServerSocketChannel.open().bind(new InetSocketAddress(LOCAL, 0))) {
				Future<AsynchronousSocketChannel> accepted = s.accept();
				try (AsynchronousSocketChannel a = AsynchronousSocketChannel.open()) {
					a.connect(s.getLocalAddress()).get();
					try (AsynchronousSocketChannel b = accepted.get()) {
						CRC32 out = new CRC32(), in = new CRC32();
						for (int i = 0; i < 500; i++) {
							byte[] body = new byte[1 + i * 20];
							new Random(i).nextBytes(body);
							out.update(body);
							ByteBuffer to = ByteBuffer.wrap(body), from = ByteBuffer.allocate(body.length);
							Future<Integer> reading = b.read(from);
							while (to.hasRemaining())
								a.write(to).get(10, TimeUnit.SECONDS);
							while (reading.get(10, TimeUnit.SECONDS) > 0 && from.hasRemaining())
								reading = b.read(from);
							in.update(from.array());
						}
						check(out.getValue() == in.getValue(), "sums differ");
						CompletableFuture<Throwable> timedOut = new CompletableFuture<>();
						b.read(ByteBuffer.allocate(1), 100, TimeUnit.MILLISECONDS, null, new CompletionHandler<Integer, Void>() {
							public void completed(Integer n, Void x) { timedOut.complete(null); }
							public void failed(Throwable why, Void x) { timedOut.complete(why); }
						});
						check(timedOut.get(10, TimeUnit.SECONDS) instanceof InterruptedByTimeoutException, "time-out");
					}
				}
			}
		});
		test("HTTP: server and client of the JDK", () -> {
			HttpServer server = HttpServer.create(new InetSocketAddress(LOCAL, 0), 0);
			server.setExecutor(Executors.newFixedThreadPool(4, r -> { Thread t = new Thread(r); t.setDaemon(true); return t; }));
			server.createContext("/", exchange -> {
				byte[] body = exchange.getRequestBody().readAllBytes();
				exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
				exchange.getResponseBody().write(body);
				exchange.close();
			});
			server.start();
			HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10)).build();
			URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
			List<CompletableFuture<Boolean>> all = new ArrayList<>();
			for (int i = 0; i < 200; i++) {
				String body = "x".repeat(1 + i * 500);
				all.add(client.sendAsync(HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString(body)).build(),
					HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8)).thenApply(r -> r.statusCode() == 200 && r.body().equals(body)));
				if (i % 20 == 19)
					all.get(i).get(30, TimeUnit.SECONDS);
			}
			for (CompletableFuture<Boolean> one : all)
				check(one.get(30, TimeUnit.SECONDS), "a body is altered");
			server.stop(0);
		});
		test("refused", () -> {
			int closed;
			try (ServerSocket s = new ServerSocket(0, 1, LOCAL)) {
				closed = s.getLocalPort();
			}
			expect(ConnectException.class, () -> new Socket(LOCAL, closed).close());
			expect(ConnectException.class, () -> SocketChannel.open(new InetSocketAddress(LOCAL, closed)).close());
		});
		System.out.println("1.." + number);
		System.exit(0);
	}
}
