#!/usr/bin/env bats
# install.sh: from real https servers and folders, into a view of this machine; by package and by archive, back again, and against everything that
# may go wrong on the way.

. "$BATS_TEST_DIRNAME/site.bash"

setup_file() {
	[ "$(id -u)" = 0 ] || skip "needs root for a mount name space"
	command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null || skip "debhelper is not installed"
	site_make || return 1
	cd "$BATS_FILE_TMPDIR"
	certificate good IP:127.0.0.1
	certificate other DNS:elsewhere.example
	! command -v faketime >/dev/null || faketime '2020-01-01' bash -c "$(declare -f certificate); certificate expired IP:127.0.0.1"
	serve good good.crt good.key
	serve other other.crt other.key
	[ ! -e expired.crt ] || serve expired expired.crt expired.key
	serve plain - - plain
	cp good.crt other.crt "$site/"
	[ ! -e expired.crt ] || cp expired.crt "$site/"
	python3 "$BATS_TEST_DIRNAME/proxy.py" >proxy.log 3>&- & echo $! >>servers
}

certificate() { # NAME SUBJECT-NAME
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.crt" -days 2 -subj "/CN=$1" -addext "subjectAltName=$2" 2>/dev/null
}

serve() { # NAME CERT KEY [plain]
	python3 "$top_srcdir/tests/bats/host/https.py" "$2" "$3" "$site/files" ${4:-} >"$1.port" 2>"$1.requests" 3>&- &
	echo $! >>servers
	for _ in $(seq 100); do [ -s "$1.port" ] && break; sleep 0.1; done
}

teardown_file() {
	[ ! -e "$BATS_FILE_TMPDIR/servers" ] || while read -r pid; do kill "$pid"; done <"$BATS_FILE_TMPDIR/servers"
}

setup() {
	[ -e "$site/made" ] || skip "no release was built"
	cd "$BATS_FILE_TMPDIR"
	version=$(cat "$site/version")
	ca=/run/site/good.crt mirror=https://127.0.0.1:$(cat good.port) plain=http://127.0.0.1:$(cat plain.port)
	export ca mirror plain version
}

see() { # SHELL-TEXT: in a view; sets status and output
	run view "$1"
	echo "$output"
	[ "$status" -ne 99 ]
}

@test "by packages from an https server: installed, the second run changes nothing, removed, all as before" {
	see 'set -e
		from_mirror --no-start
		hasten --version
		dpkg-query -W hasten hasten-preload
		written | LC_ALL=C sort >/tmp/first
		find $(sed s,^,/run/up/, /tmp/first) -printf "%p %T@ %C@\n" 2>/dev/null >/tmp/times
		echo --- again
		from_mirror --no-start
		find $(sed s,^,/run/up/, /tmp/first) -printf "%p %T@ %C@\n" 2>/dev/null | diff /tmp/times -
		written | LC_ALL=C sort | diff /tmp/first -
		echo --- away
		install --uninstall --purge
		changed'
	[ "$status" -eq 0 ]
	[[ $output == *"the signature of the list of version $version is good"*"hasten $version"*"--- again"*"$version is installed already"* ]]
	[[ $output == *"next: hasten profile list"* ]]
	[[ ${output#*--- away} == *"hasten is removed" ]]
}

@test "by archive below a prefix: finds its own library and profiles, second run changes nothing, removed, all as before" {
	for prefix in /usr/local /opt/hasten; do
		shell=dash
		[ $prefix != /opt/hasten ] || ! command -v busybox >/dev/null || shell='busybox ash'
		see "set -e
			shell='$shell'
			from_mirror --prefix $prefix
			$prefix/bin/hasten run --explain /bin/true | grep $prefix/lib/hasten/libhasten.so
			$prefix/bin/hasten profile list | grep $prefix/lib/hasten/profiles/redis.yaml
			$prefix/bin/hasten driver status >/dev/null
			grep -rh ^ExecStart $prefix/lib/systemd/system /etc/systemd/system/hast* 2>/dev/null || true
			[ -h $prefix/bin/netacc_run ]
			changed >/tmp/first
			find /run/up -type f -printf '%p %T@ %C@\\n' | grep -v /up/tmp >/tmp/times
			echo --- again
			from_mirror
			find /run/up -type f -printf '%p %T@ %C@\\n' | grep -v /up/tmp | diff /tmp/times -
			echo --- away
			install --uninstall --purge
			changed"
		[ "$status" -eq 0 ]
		[[ $output == *"$prefix/bin/hasten apply"*"--- again"*"$version is installed already"* ]]
		[[ ${output#*--- away} == *"hasten is removed" ]]
	done
}

@test "--dry-run, as root and not, prints the steps and writes no file" {
	see 'set -e
		for how in "" "--prefix /opt/x" "--uninstall" "--profile redis --driver erdma --enable redis-server"; do from_mirror --dry-run $how; done
		HASTEN_INSTALL_DRY_RUN=1 from_mirror --profile redis
		chmod 755 /run/test /run/site; setsid -w setpriv --reuid 65534 --regid 65534 --clear-groups dash -s -- --dry-run <$installer
		written
		find /run/up -type d -newer /run/view.sh ! -path /run/up ! -path /run/up/var/lib/man-db'
	[ "$status" -eq 0 ]
	[[ $output == *"would: fetch, check and install the packages hasten_$version"*"would: hasten driver install erdma"*"would: hasten apply redis"*"would: hasten enable redis-server"* ]]
	[ "$(tail -n 1 <<<"$output")" = "hasten: nothing was changed (--dry-run)" ]
}

@test "cut anywhere it is a syntax error, whatever shell, and nothing runs" {
	size=$(stat -c %s "$site/install.sh")
	cd "$BATS_TEST_TMPDIR"
	for shell in dash "busybox ash" bash; do
		command -v ${shell%% *} >/dev/null || continue
		for at in $(seq 512 512 $((size - 1))) $(seq $((size - 200)) $((size - 2))); do
			head -c "$at" "$site/install.sh" >cut
			# A later version ends in "}" and a line's end, as this one.
			said=$(env -i PATH="$PATH" $shell -s -- --help <cut 2>err) && { echo "$shell: $at bytes: no error"; false; }
			[ -z "$said" ] || { echo "$shell: $at bytes: ran: $said"; false; }
			grep -qiE 'syntax|unexpected|unterminated|quot' err || { echo "$shell: $at bytes: $(cat err)"; false; }
		done
		env -i PATH="$PATH" $shell -s -- --help <"$site/install.sh" | grep -q '^Usage'
	done
}

@test "altered list, signature, package or script: refused before anything is unpacked" {
	cp -r "$site/files" "$BATS_TEST_TMPDIR/files"
	see 'refused() { # WORDS OPTION...
			words=$1; shift
			for how in "" "--prefix /opt/hasten"; do
				install --offline /run/test/files $how "$@" >/tmp/said 2>&1 && echo "INSTALLED $words"
				grep -q "$words" /tmp/said || { echo "NOT SAID: $words"; cat /tmp/said; }
			done
			changed
		}
		cd /run/test/files
		cp SHA256SUMS.sig /tmp/sig; cp SHA256SUMS /tmp/sums
		echo >>SHA256SUMS; refused "is not signed by hasten.s key"; cp /tmp/sums SHA256SUMS
		rm SHA256SUMS.sig; refused "SHA256SUMS.sig is neither in"; : >SHA256SUMS.sig; refused "is not signed by"; head -c 63 /tmp/sig >SHA256SUMS.sig; refused "is not signed by"
		openssl pkeyutl -sign -rawin -inkey /run/site/foreign.key -in SHA256SUMS -out SHA256SUMS.sig; refused "is not signed by"; cp /tmp/sig SHA256SUMS.sig
		for name in *.deb *.tar.gz; do printf x >>$name; done; refused "is not what the signed list says"
		rm *.deb *.tar.gz; refused "is neither in"
		refused "version 9.9 has no hasten" --version 9.9
		sed "s/^release_key_\([12]\)=.*/release_key_\1=/" $installer >/tmp/none.sh; installer=/tmp/none.sh; refused "no key is pinned"'
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "the key for the next years signs as well" {
	cp -r "$site/files" "$BATS_TEST_TMPDIR/files"
	site_sign "$BATS_TEST_TMPDIR/files" "$site/next.key"
	see 'install --offline /run/test/files --prefix /opt/hasten >/dev/null && /opt/hasten/bin/hasten --version'
	[ "$output" = "hasten $version" ]
}

@test "certificates: unknown, of another name, expired; redirects to plain http, in circles; missing, altered: refused, each with its reason" {
	ports="$(cat good.port) $(cat other.port) $(cat expired.port 2>/dev/null)"
	see "set -- $ports"'
		for tool in curl wget; do
			[ $tool = curl ] || rm /usr/bin/curl
			HASTEN_INSTALL_STALL=2; export HASTEN_INSTALL_STALL
			refused() { # WORDS MIRROR CA
				install --prefix /opt/hasten --mirror "$2" ${3:+--ca-file $3} >/tmp/said 2>&1 && echo "INSTALLED $1"
				grep -q "$1" /tmp/said || { echo "NOT SAID with $tool: $1"; cat /tmp/said; }
			}
			refused "certificate is not trusted" https://127.0.0.1:$1/good
			refused "certificate is not trusted" https://127.0.0.1:$2/good /run/site/other.crt
			[ -z "$3" ] || refused "certificate is not trusted" https://127.0.0.1:$3/good /run/site/expired.crt
			refused "something else than https" https://127.0.0.1:$1/http $ca
			refused "in a circle" https://127.0.0.1:$1/loop $ca
			refused "the server answers 404" https://127.0.0.1:$1/missing $ca
			refused "is not signed by" https://127.0.0.1:$1/altered $ca
			refused "more bytes than a release has\|no room" https://127.0.0.1:$1/long $ca
		done
		changed | grep -v "gone: /usr/bin/curl"'
	[ -z "$output" ]
}

@test "a transfer that breaks goes on where it stopped, also where the server knows no ranges or is busy; by curl and by wget" {
	for way in cut:curl cut:wget norange:curl norange:wget busy:curl; do
		how=${way%:*} tool=${way#*:}
		: >good.requests
		see "[ $tool = curl ] || rm /usr/bin/curl; install --mirror \$mirror/$how/$tool --ca-file \$ca --prefix /opt/hasten && /opt/hasten/bin/hasten --version"
		[ "$status" -eq 0 ]
		[[ $output == *"again in "*"hasten $version" ]]
		[ $how != cut ] || grep -q '/cut/.*tar.gz .*bytes=[1-9]' good.requests
	done
}

@test "a server that stalls: given up with that reason" {
	see 'HASTEN_INSTALL_STALL=1 install --mirror $mirror/stall --ca-file $ca --prefix /opt/hasten; echo ended with $?; changed'
	[[ $output == *"no bytes for 1 s"*"ended with 1" ]]
}

@test "neither curl nor wget: said with the remedy; a folder needs neither; busybox's wget is not enough" {
	see 'rm /usr/bin/curl /usr/bin/wget
		from_mirror --prefix /opt/hasten; echo ended with $?
		printf "#!/bin/sh\necho BusyBox v1 >&2\n" >/usr/bin/wget; chmod 755 /usr/bin/wget
		from_mirror --prefix /opt/hasten; echo ended with $?
		here --prefix /opt/hasten >/dev/null && /opt/hasten/bin/hasten --version'
	[[ $output == *"neither curl nor wget is here"*"--offline DIR"*"ended with 1"*"checks no certificates"*"ended with 1"*"hasten $version" ]]
}

@test "plain http only for a mirror in one's own network that the command line names" {
	see 'install --mirror http://mirror.example/hasten; echo $?; install --mirror ftp://127.0.0.1/; echo $?
		install --mirror $plain/good --prefix /opt/hasten >/dev/null && /opt/hasten/bin/hasten --version'
	[[ $output == *"in your own network"*64*64*"hasten $version" ]]
}

@test "the proxy that sudo dropped is found in /etc/environment, apt's settings and the variables" {
	proxy=127.0.0.1:$(head -n 1 proxy.log)
	for place in "echo https_proxy=http://$proxy >>/etc/environment" "echo 'Acquire::http::Proxy \"http://$proxy\";' >/etc/apt/apt.conf.d/99proxy" "export https_proxy=http://$proxy"; do
		before=$(wc -l <proxy.log)
		see "$place; from_mirror --prefix /opt/hasten"
		[ "$status" -eq 0 ]
		[ "$(wc -l <proxy.log)" -gt "$before" ]
	done
	grep -q "^CONNECT 127.0.0.1:$(cat good.port)" proxy.log
}

@test "no room: refused before, and where it turns out too late nothing is changed" {
	see 'mount -t tmpfs -o size=1m tmpfs /opt
		here --prefix /opt/hasten; echo ended with $?
		sed "s/^need_kib=.*/need_kib=1/" $installer >/tmp/small.sh; installer=/tmp/small.sh
		here --prefix /opt/hasten; echo ended with $?
		find /opt /var/lib/hasten-install -mindepth 1 2>/dev/null
		for at in /tmp /var/tmp /opt; do mount -t tmpfs -o size=1m tmpfs $at; done; sed "s/^need_kib=.*/need_kib=1/" /run/site/install.sh >/run/small.sh
		installer=/run/small.sh; here --prefix /opt; echo ended with $?
		changed'
	[[ $output == *"/opt has "*" KiB free, "*"ended with 1"*"could not be written; no file of hasten was changed"*"df /opt/hasten"*"ended with 1"*"no folder for temporary files"*"TMPDIR="*"ended with 1"* ]]
	[ -z "$(sed '1,/TMPDIR=/d' <<<"$output" | grep -E '^/|^(new|other|gone)')" ]
}

@test "read-only /usr, musl, another architecture, an old kernel, old glibc, 32 bits, no root: refused with the reason" {
	see 'mount --bind /usr /usr && mount -o remount,bind,ro /usr; here; echo ended with $?; umount -l /usr
		mkdir /tmp/bin
		as() { # COMMAND OUTPUT WORDS
			printf "#!/bin/sh\n%s\n" "$2" >/tmp/bin/$1; chmod 755 /tmp/bin/$1
			PATH=/tmp/bin:$PATH here >/tmp/said 2>&1; code=$?
			[ $code = 1 ] && grep -q "$3" /tmp/said || { echo "NOT SAID: $3"; cat /tmp/said; }
			rm /tmp/bin/$1
		}
		as getconf "echo musl libc 1.2.4" "uses musl"
		as getconf "echo glibc 2.28" "has glibc 2.28; hasten needs 2.34"
		as uname "case \$1 in -m) echo riscv64 ;; *) /bin/uname \$1 ;; esac" "this machine is riscv64"
		as uname "case \$1 in -r) echo 5.10.0-7 ;; *) /bin/uname \$1 ;; esac" "kernel 5.10.0-7 is running; hasten needs 5.14"
		as uname "case \$1 in -s) echo FreeBSD ;; *) /bin/uname \$1 ;; esac" "this is FreeBSD"
		as od "echo 1" "32-bit"
		as id "echo 1000" "sudo sh"
		as openssl "exit 1" "cannot check Ed25519"
		changed'
	[[ $output == *"/usr is read-only"*"--prefix /opt/hasten"*"ended with 1" ]]
}

@test "wrong use is said, status 64" {
	see 'for words in "--frobnicate" "--version" "--version ../x" "--prefix etc" "--prefix /" "--prefix /a/../b" "--purge" "--profile -x" "--enable a;b" "--dry-run=1" \
			"--offline /nowhere" "--mirror /nowhere"; do
			install $words >/tmp/said 2>&1; code=$?
			[ $code = 64 ] && [ "$(grep -c . /tmp/said)" = 2 ] || { echo "$words: $code"; cat /tmp/said; }
		done
		install --help | head -n 1'
	[ "$output" = "Usage: curl -fsSL https://HOST/install.sh | sudo sh -s -- [OPTION...]" ]
}

@test "the package manager is in use: it waits and says so" {
	see 'python3 -c "
import fcntl, time
f = open(\"/var/lib/dpkg/lock-frontend\", \"w\"); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(7)" >/tmp/held &
		while [ ! -s /tmp/held ]; do sleep 0.1; done
		here --no-start; echo ended with $?
		python3 -c "
import fcntl, time
f = open(\"/var/lib/dpkg/lock-frontend\", \"w\"); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)" >/tmp/held2 & holder=$!
		while [ ! -s /tmp/held2 ]; do sleep 0.1; done
		HASTEN_INSTALL_LOCK_WAIT=5 install --uninstall; echo ended with $?; kill $holder'
	[[ $output == *"waiting: another program uses the package manager"*"ended with 0"*"still in use after 5 s"*"ended with 1" ]]
}

@test "killed half-way, again and again: the next run completes, and removal leaves nothing" {
	see 'for how in "--prefix /opt/hasten" "--no-start"; do
			for after in 0.2 0.4 0.6 0.8 1.1 1.5 2.0 3.0; do
				setsid dash -s -- --offline /run/site/files $how <$installer >/tmp/said 2>&1 & sleep $after
				kill -9 -- -$! 2>/dev/null; wait $! 2>/dev/null
				for left in /opt/hasten/bin/hasten /usr/bin/hasten; do
					[ ! -e $left ] || $left --version >/dev/null 2>&1 || [ ! -e /opt/hasten/bin/hasten ] || echo "HALF A COMMAND at $after"
				done
			done
			here $how >/tmp/said 2>&1 || { echo "NOT COMPLETED: $how"; cat /tmp/said; }
			ls -d /tmp/hasten-install.* /var/tmp/hasten-install.* /run/hasten-install.lock 2>/dev/null
			PATH=/opt/hasten/bin:$PATH hasten --version
			install --uninstall --purge >/tmp/said 2>&1 || cat /tmp/said
			changed
		done'
	[ "$output" = "hasten $version"$'\n'"hasten $version" ]
}

@test "upgrade and going back: configuration stays, settings are not put back, files of the other version go" {
	for how in "--no-start" "--prefix /opt/hasten"; do
		see "here $how --version $version >/dev/null || exit 1
			mkdir -p /etc/hasten; echo 'spin_us = 7' >/etc/hasten/hasten.conf
			mkdir -p /var/lib/hasten; echo kept >/var/lib/hasten/witness
			here $how --version $version.1 >/tmp/said 2>&1 || cat /tmp/said
			grep 'configuration and running programs stay' /tmp/said
			cat /etc/hasten/hasten.conf /var/lib/hasten/witness
			tail -c 5 \$(ls /opt/hasten/lib/hasten/libhasten.so /usr/lib/hasten/libhasten.so 2>/dev/null); echo
			ls /opt/hasten/share/doc/hasten/README.md.gz 2>/dev/null
			echo --- older without being asked for
			here $how
			echo --- back
			here $how --version $version >/tmp/said 2>&1 || cat /tmp/said
			cat /etc/hasten/hasten.conf
			rm /var/lib/hasten/witness
			install --uninstall | grep -v '^\$'
			cat /etc/hasten/hasten.conf; rm -r /etc/hasten; changed"
		[[ $output == *"stay as they are"*"spin_us = 7"*kept*later*"--- older without"*"$version.1 is installed, newer than $version; nothing was changed"*"--- back"*"spin_us = 7"*"configuration stays in /etc/hasten"*"spin_us = 7" ]]
		[[ $output != *README.md.gz* ]]
	done
}

@test "a server that runs with the old library serves clients with the new one, and the other way round; removal names it" {
	command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null || skip "redis is not installed"
	see "here --no-start --version $version >/dev/null || exit 1
		cd /tmp; redis() { hasten run redis-server --port 7391 --save '' --logfile /tmp/redis.log --daemonize no & server=\$!; for i in \$(seq 100); do redis-cli -p 7391 ping 2>/dev/null | grep -q PONG && break; sleep 0.1; done; }
		work() { hasten run redis-benchmark -p 7391 -n 20000 -c 10 -P 4 -t set,get -q 2>&1 | tr '\\r' '\\n' | grep -c 'requests per second'; }
		redis; work
		here --no-start --version $version.1 >/dev/null || exit 1
		work; grep -c deleted /proc/\$server/maps
		kill \$server; wait \$server; redis; work
		here --no-start --version $version >/dev/null || exit 1
		work
		install --uninstall --purge
		redis-cli -p 7391 ping
		kill \$server; wait \$server"
	[ "$(grep -cx 2 <<<"$output")" -ge 4 ]
	[[ $output == *"these processes keep the library"*"redis-server"*"keep it until they end"*PONG* ]]
}

@test "--profile, --enable: applied and enabled; removal puts settings and services back first" {
	# The kernel's settings are read-only in this view: where one differs, apply says so and the installation is status 2.
	see 'here --no-start --profile redis >/tmp/said 2>&1; echo ended with $?
		cat /tmp/said
		ls /var/lib/hasten | head
		mkdir -p /etc/systemd/system/some.service.d; printf "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/hasten/libhasten.so\"\n" >/etc/systemd/system/some.service.d/60-hasten.conf
		install --uninstall --purge
		ls -d /etc/systemd/system/some.service.d 2>&1
		rm -rf /etc/systemd/system/some.service.d
		changed'
	[[ $output == "ended with "[02]*"hasten apply redis"* ]]
	[[ $output == *"some.service is disabled"*"hasten is removed"*"No such file"* ]]
}

@test "while cloud-init runs units are started without waiting for them, afterwards with; --no-start starts none" {
	see 'mkdir -p /run/systemd/system /run/cloud-init
		printf "#!/bin/sh\necho \"\$*\" >>/run/asked\ncase \$* in *is-active* | *is-enabled*) exit 1 ;; esac\n" >/tmp/systemctl
		rm /usr/bin/systemctl; cp /tmp/systemctl /usr/bin/systemctl; chmod 755 /usr/bin/systemctl
		asked() { echo "--- $1"; grep -E "start|enable " /run/asked; rm /run/asked; }
		here --prefix /opt/hasten --no-start >/dev/null; asked none
		here >/dev/null; asked first
		: >/run/cloud-init/result.json
		here >/dev/null; asked later'
	[[ $output == *"--- none"*"enable hasten-apply.service"*"enable hastend.service"*"--- first"*"--no-block start hastend.service"*"--- later"*"restart hastend.service" ]]
	[[ ${output%%--- first*} != *start\ hastend* ]]
	[[ ${output#*--- later} != *no-block* ]]
}

@test "--offline says which packages of the distribution are missing" {
	see 'printf "#!/bin/sh\necho \"Inst hasten (0.1)\"; echo \"Inst libyaml-0-2 (0.2)\"\n" >/tmp/apt-get; rm /usr/bin/apt-get; cp /tmp/apt-get /usr/bin/apt-get; chmod 755 /usr/bin/apt-get
		here; echo ended with $?; dpkg-query -W hasten'
	[[ $output == *"are not installed: libyaml-0-2"*"ended with 1"*"no packages found"* ]]
}
