// The echo of echo.py by the JVM: Echo PORT NIO-PORT. Blocking, with a thread a connection; and with selectors.
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;

public class Echo {
	static void blocking(int port) throws IOException {
		ServerSocket listener = new ServerSocket(port, 512, InetAddress.getByName("127.0.0.1"));
		for (;;) {
			Socket s = listener.accept();
			Thread t = new Thread(() -> {
				try (s) {
					DataInputStream in = new DataInputStream(new BufferedInputStream(s.getInputStream()));
					DataOutputStream out = new DataOutputStream(new BufferedOutputStream(s.getOutputStream()));
					for (;;) {
						int n;
						try {
							n = in.readInt();
						} catch (EOFException e) {
							return;
						}
						byte[] body = new byte[n];
						in.readFully(body);
						out.writeInt(n);
						out.write(body);
						out.flush();
					}
				} catch (IOException e) {
					e.printStackTrace();
				}
			});
			t.setDaemon(true);
			t.start();
		}
	}

	static void selecting(int port) throws IOException {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();
		listener.bind(new InetSocketAddress("127.0.0.1", port), 512);
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		for (;;) {
			selector.select();
			for (SelectionKey k : selector.selectedKeys()) {
				if (k.isAcceptable()) {
					SocketChannel c = listener.accept();
					if (c != null) {
						c.configureBlocking(false);
						c.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(100000));
					}
					continue;
				}
				SocketChannel c = (SocketChannel) k.channel();
				ByteBuffer b = (ByteBuffer) k.attachment();
				boolean ended = k.isReadable() && c.read(b) < 0;
				b.flip();
				c.write(b);
				b.compact();
				if (ended && b.position() == 0)
					c.close();
				else
					k.interestOps((b.hasRemaining() && !ended ? SelectionKey.OP_READ : 0) | (b.position() > 0 ? SelectionKey.OP_WRITE : 0));
			}
			selector.selectedKeys().clear();
		}
	}

	public static void main(String[] a) throws Exception {
		Thread t = new Thread(() -> {
			try {
				selecting(Integer.parseInt(a[1]));
			} catch (IOException e) {
				e.printStackTrace();
				System.exit(1);
			}
		});
		t.start();
		blocking(Integer.parseInt(a[0]));
	}
}
