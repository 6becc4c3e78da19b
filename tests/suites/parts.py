"""The suites: what each is made of, how a part of it runs, and how its output is read."""
import os
import re
import shutil
import subprocess

here = os.path.dirname(os.path.abspath(__file__))


class Part:
    """One run: a command in a folder of its own, and what its tests are called."""

    def __init__(self, suite, name, command, limit=120, folder=None, copy=None, read=None, environment=None, quick=False):
        self.suite, self.name, self.command, self.limit = suite, name, command, limit
        self.folder, self.copy, self.read, self.environment = folder, copy, read, environment or {}
        self.quick = quick
        self.full = f"{suite}/{name}"


# --- reading what a suite says of its tests: each gives {test: outcome}

def read_lines(results, _output):
    """outcome<TAB>test; a test that has begun and did not end has the outcome "begun"."""
    outcomes = {}
    for line in results.splitlines():
        outcome, _, name = line.partition("\t")
        outcomes[name] = outcome
    return outcomes


def read_tap(_results, output):
    """Numbers and descriptions; "# file NAME" begins another file."""
    outcomes, file = {}, ""
    for line in output.splitlines():
        if found := re.match(r"# file (\S+)$", line):
            file = found[1] + " "
        elif found := re.match(r"\s*(not )?ok\b *(\d*) *-? *(.*)", line):
            # addresses, ports and numbers of descriptors differ from run to run
            name = re.sub(r"/tmp/\S+|0x[0-9a-f]+|\b\d{4,}\b", "N", found[3])
            skip = re.search(r"#\s*skip\S*\s*(.*)", name, re.I)
            name = re.sub(r"\s*#.*", "", name)
            indent = "(sub) " if line[0].isspace() else ""
            base = key = f"{file}{indent}{found[2]} {name}".strip()
            count = 2
            while key in outcomes:
                key, count = f"{base} ({count})", count + 1
            outcomes[key] = f"skip: {skip[1]}" if skip else "not ok" if found[1] else "ok"
        elif found := re.match(r"1\.\.(\d+)\s*(?:#\s*(.*))?$", line):
            outcomes[f"{file}(plan)"] = f"plan {found[1]} {found[2] or ''}".strip()
    return outcomes


def read_tcltest(_results, output):
    outcomes = {}
    for line in output.splitlines():
        if found := re.match(r"\+\+\+\+ (\S+) (PASSED|SKIPPED.*)", line):
            outcomes[found[1]] = found[2].lower()
        elif found := re.match(r"==== (\S+) .*FAILED", line):
            outcomes[found[1]] = "failed"
    return outcomes


def read_ruby(_results, output):
    outcomes = {}
    for found in re.finditer(r"^\[ *\d+/\d+\] (\S+#\S+) =( [0-9.]+ s)?", output, re.M):
        outcomes[found[1]] = "ok" if found[2] else "begun"
    for found in re.finditer(r"^ +\d+\) (Failure|Error|Skipped):\n(\S+#[^\s:\[]+)(?:.*\n)?(.*)", output, re.M):
        error = re.match(r"[A-Z][\w:]+", found[3]) if found[1] == "Error" else None
        outcomes[found[2]] = f"{found[1].lower()} {error[0] if error else ''}".strip()
    return outcomes


# --- CPython: Debian's libpython3.11-testsuite

# Module, time limit in seconds, part of the fast set
CPYTHON = [
    ("test_socket", 200, 1), ("test_select", 60, 1), ("test_epoll", 60, 1), ("test_poll", 90, 0), ("test_selectors", 90, 1),
    ("test_asyncio", 600, 0), ("test_socketserver", 90, 1), ("test_ssl", 240, 0), ("test_ftplib", 120, 1),
    ("test_httplib", 120, 1), ("test_urllib2_localnet", 120, 1), ("test_smtplib", 120, 0), ("test_poplib", 120, 1),
    ("test_imaplib", 240, 0), ("test_nntplib", 120, 1), ("test_telnetlib", 120, 1), ("test_xmlrpc", 120, 1),
    ("test_wsgiref", 60, 0), ("test_asyncore", 120, 1), ("test_asynchat", 120, 1), ("test_eintr", 240, 0),
    ("_test_eintr", 240, 0), ("test_signal", 240, 0), ("test_subprocess", 400, 0),
    ("test_multiprocessing_fork", 500, 0), ("test_multiprocessing_spawn", 600, 0),
    ("test_multiprocessing_forkserver", 600, 0), ("test_concurrent_futures", 600, 0), ("test_logging", 240, 0),
]


def cpython(_cache):
    python = "/usr/bin/python3.11"
    if not os.path.exists("/usr/lib/python3.11/test/test_socket.py"):
        return "libpython3.11-testsuite is not installed"
    return [Part("cpython", name, [python, f"{here}/unit.py", "RESULTS", str(limit), f"test.{name}"], limit + 10,
                 read=read_lines, quick=bool(quick)) for name, limit, quick in CPYTHON]


# --- Twisted and Tornado: the packages bring their tests

TWISTED = [("tcp", "internet.test.test_tcp", 300), ("endpoints", "internet.test.test_endpoints", 120),
           ("tls", "internet.test.test_tls", 300), ("reactor", "internet.test.test_core internet.test.test_fdset internet.test.test_threads", 200),
           ("process", "internet.test.test_process internet.test.test_sigchld test.test_process", 400),
           ("old", "test.test_tcp test.test_tcp_internals test.test_internet test.test_loopback test.test_socks test.test_stdio", 300),
           ("ssl", "test.test_ssl test.test_sslverify", 300), ("ftp", "test.test_ftp", 200), ("web", "web.test.test_http web.test.test_webclient web.test.test_agent", 200)]

TORNADO = [("iostream", 120), ("httpserver", 120), ("tcpserver", 90), ("tcpclient", 90), ("netutil", 60), ("ioloop", 60), ("process", 120),
           ("simple_httpclient", 200), ("http1connection", 60), ("httpclient", 120), ("web", 200), ("websocket", 120), ("asyncio", 60)]


def twisted(_cache):
    if not os.path.exists("/usr/lib/python3/dist-packages/twisted/internet/test/test_tcp.py"):
        return "python3-twisted is not installed"
    return [Part("twisted", name, ["/usr/bin/python3", f"{here}/unit.py", "RESULTS", str(limit), *[f"twisted.{module}" for module in modules.split()]],
                 limit + 10, read=read_lines) for name, modules, limit in TWISTED]


def tornado(_cache):
    if not os.path.exists("/usr/lib/python3/dist-packages/tornado/test/iostream_test.py"):
        return "python3-tornado is not installed"
    return [Part("tornado", name, ["/usr/bin/python3", f"{here}/unit.py", "RESULTS", str(limit), f"tornado.test.{name}_test"], limit + 10,
                 read=read_lines) for name, limit in TORNADO]


# --- what Debian ships as source: Perl, Ruby, Tcl

def source(cache, package, members):
    """Unpacks Debian's source of PACKAGE once; gives its folder, or why there is none."""
    os.makedirs(cache, exist_ok=True)
    folder = os.path.join(cache, package)
    if os.path.isdir(folder):
        return folder, None
    lists = os.path.join(cache, "apt")
    for name in ("lists/partial", "parts"):
        os.makedirs(os.path.join(lists, name), exist_ok=True)
    with open("/etc/os-release", encoding="ascii") as file:
        release = re.search(r"VERSION_CODENAME=(\w+)", file.read())
    with open(f"{lists}/parts/source.list", "w", encoding="ascii") as file:
        file.write(f"deb-src http://deb.debian.org/debian {release[1] if release else 'bookworm'} main\n")
    apt = ["apt-get", "-qq", "-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={lists}/parts",
           "-o", f"Dir::State::Lists={lists}/lists", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
           "-o", "APT::Sandbox::User=root"]
    if not os.path.exists(f"{lists}/updated"):
        if subprocess.run([*apt, "update"], cwd=lists, check=False).returncode:
            return None, "the list of Debian's sources cannot be fetched"
        with open(f"{lists}/updated", "w", encoding="ascii"):
            pass
    if subprocess.run([*apt, "source", "--download-only", "--only-source", package], cwd=lists, check=False).returncode:
        return None, f"the source of {package} cannot be fetched"
    archive = next((name for name in sorted(os.listdir(lists))
                    if re.match(rf"{re.escape(package)}_.*\.orig\.tar\.", name)), None)
    if not archive:
        return None, f"the source of {package} has no .orig archive"
    partial = f"{folder}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    made = subprocess.run(["tar", "-xf", f"{lists}/{archive}", "-C", partial, "--strip-components=1", "--wildcards",
                           "--no-same-owner", *[f"*/{member}" for member in members]], check=False).returncode
    if made:
        return None, f"{archive} has not all of {' '.join(members)}"
    os.rename(partial, folder)
    return folder, None


PERL = [("IO", "dist/IO", 60), ("HTTP-Tiny", "cpan/HTTP-Tiny", 60), ("IO-Socket-IP", "cpan/IO-Socket-IP", 60),
        ("Socket", "cpan/Socket", 30), ("libnet", "cpan/libnet", 60), ("Net-Ping", "dist/Net-Ping", 60)]


def perl(cache):
    if not shutil.which("perl"):
        return "perl is not installed"
    folder, why = source(cache, "perl", ["t/test.pl", "t/charset_tools.pl", "t/loc_tools.pl", *[f"{path}/t" for _, path, _ in PERL]])
    if why:
        return why
    # The modules that are tested are those that are installed; their tests look for this file beside them.
    each = f'cp {folder}/t/*.pl t/; for t in t/*.t; do echo "# file $t"; timeout 60 perl $t; echo; done; exit 0'
    return [Part("perl", name, ["sh", "-c", each], limit * 6, copy=f"{folder}/{path}", read=read_tap,
                 environment={"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}) for name, path, limit in PERL]


RUBY = [("socket", "test/socket/test_*.rb", 240), ("http", "test/net/http/test_*.rb", 240), ("protocol", "test/net/protocol/test_*.rb", 60),
        ("openssl", "test/openssl/test_ssl.rb test/openssl/test_pair.rb test/openssl/test_ssl_session.rb", 300),
        ("drb", "test/drb/test_*.rb", 300), ("io", "test/ruby/test_io.rb test/io/*/test_*.rb", 300),
        ("open-uri", "test/open-uri/test_*.rb", 120), ("process", "test/ruby/test_process.rb", 300)]


def ruby(cache):
    if not shutil.which("ruby"):
        return "ruby is not installed"
    version = subprocess.run(["ruby", "-e", "print RUBY_VERSION[/\\d+\\.\\d+/]"], stdout=subprocess.PIPE, text=True, check=False).stdout
    folder, why = source(cache, f"ruby{version}", ["tool", "test"])
    if why:
        return why
    return [Part("ruby", name, ["sh", "-c", f"exec ruby -Itool/lib -Itest -Itest/lib test/runner.rb -v --seed=1 {files}"], limit,
                 folder=folder, read=read_ruby) for name, files, limit in RUBY]


TCL = [("socket", 200), ("http", 120), ("http11", 120), ("httpold", 120), ("httpPipeline", 200), ("event", 120), ("io", 300),
       ("chanio", 300), ("ioCmd", 120), ("ioTrans", 120), ("exec", 120)]


def tcl(cache):
    if not shutil.which("tclsh8.6"):
        return "tcl8.6 is not installed"
    folder, why = source(cache, "tcl8.6", ["tests"])
    if why:
        return why
    return [Part("tcl", name, ["tclsh8.6", f"{folder}/tests/{name}.test", "-verbose", "ps", "-tmpdir", "."], limit, read=read_tcltest)
            for name, limit in TCL]


# --- our own programs, for runtimes whose suites Debian does not ship

def java(_cache):
    if not shutil.which("javac"):
        return "no JDK is installed (default-jdk-headless)"
    return [Part("java", "loops", ["sh", "-c", f"env -u LD_PRELOAD javac -d . {here}/Loops.java && exec java -cp . Loops"], 240, read=read_tap)]


def node(_cache):
    if not shutil.which("node"):
        return "nodejs is not installed"
    return [Part("node", "net-http", ["node", f"{here}/node.js"], 240, read=read_tap)]


SUITES = {"cpython": cpython, "twisted": twisted, "tornado": tornado, "perl": perl, "ruby": ruby, "tcl": tcl, "java": java, "node": node}
