#!/usr/bin/env python3
"""The Debian package: built, looked at by lintian, installed into a fresh Debian where it trains, and removed again without
a trace. As root, with the packages of DEB_PACKAGES in packaging/packages.sh."""
import glob, json, os, re, shutil, subprocess, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

RUN = """\
name = "small"

[data.train]
format = "synthetic"
samples = 400
classes = 10

[train]
batch = 40
micro_batch = 20
threads = 1
steps = 20

[optimizer]
type = "sgd"
lr = 0.05

[network]
input = [1, 8, 8]
layers = [
  { type = "conv2d", filters = 4, kernel = 3, activation = "relu" },
  { type = "flatten" },
  { type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
"""


def output(*command, timeout=300, **kwargs):
    """Standard output; an error with all that was said where it fails."""
    p = subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       timeout=timeout, **kwargs)
    if p.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {p.returncode}\n{p.stdout}")
    return p.stdout


def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        raise unittest.SkipTest(f"no {', '.join(missing)}")


def listed(variable):
    """The packages of a list in packaging/packages.sh."""
    text = output("bash", "-c", f'source "$0"; echo ${variable}', os.path.join(ROOT, "packaging", "packages.sh"))
    return set(text.split())


def control(field):
    """The names of packages in a field of debian/control."""
    with open(os.path.join(ROOT, "packaging", "debian", "control"), encoding="utf-8") as f:
        text = re.search(rf"^{field}:((?:.*\n)(?: .*\n)*)", f.read(), re.M).group(1)
    return {re.split(r"[\s(]", p.strip())[0] for p in text.split(",") if p.strip()}


class Debian:
    """Where this machine's apt takes Debian from, and how it gets there."""

    def __init__(self):
        fields = ("SITE", "RELEASE", "ORIGIN", "COMPONENT")
        text = output("apt-get", "indextargets", "--format", "|".join(f"$({f})" for f in fields), "Created-By: Packages")
        rows = [dict(zip(fields, line.split("|"))) for line in text.splitlines()]
        rows = [r for r in rows if r["ORIGIN"] == "Debian" and r["COMPONENT"] == "main"]
        if not rows:
            raise unittest.SkipTest("apt knows no Debian: apt-get update")
        release = os.environ.get("VERSION_CODENAME") or self.codename()
        main = [r for r in rows if r["RELEASE"] == release]
        if not main:
            raise unittest.SkipTest(f"apt knows no Debian {release}")
        self.release, self.mirror = release, main[0]["SITE"]
        self.sources = "".join(f"deb {r['SITE']} {r['RELEASE']} main\n" for r in rows)
        self.acquire = output("apt-config", "dump", "Acquire")

    @staticmethod
    def codename():
        with open("/etc/os-release", encoding="utf-8") as f:
            return re.search(r"^VERSION_CODENAME=(\S+)", f.read(), re.M).group(1).strip('"')

    def environment(self):
        """What debootstrap needs to get through the same proxy."""
        env = dict(os.environ)
        for scheme in ("http", "https"):
            proxy = re.search(rf'^Acquire::{scheme}::Proxy "(.+)";', self.acquire, re.M)
            if proxy:
                env.setdefault(f"{scheme}_proxy", proxy.group(1))
        return env

    def configure(self, root):
        """The same for apt inside: its way to the network, the files that this names, and whom the machine trusts."""
        with open(os.path.join(root, "etc/apt/sources.list"), "w") as f:
            f.write(self.sources)
        with open(os.path.join(root, "etc/apt/apt.conf.d/90machine"), "w") as f:
            f.writelines(line + "\n" for line in self.acquire.splitlines() if re.match(r"Acquire::(https?|ftp|Retries)", line))
        files = set(re.findall(r'"(/[^"]+)"', self.acquire)) | {"/etc/ssl/certs/ca-certificates.crt", "/etc/resolv.conf", "/etc/hosts"}
        for path in filter(os.path.isfile, files):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)


class Image:
    """packaging/Dockerfile: its stages, each a list of (instruction, words)."""

    def __init__(self):
        with open(os.path.join(ROOT, "packaging", "Dockerfile"), encoding="utf-8") as f:
            text = "".join(line for line in f if not line.startswith("#")).replace("\\\n", " ")
        self.stages = []
        for line in filter(None, map(str.strip, text.splitlines())):
            instruction, words = line.split(None, 1)
            if instruction == "FROM":
                self.stages.append([])
            self.stages[-1].append((instruction, words))

    def of(self, stage, instruction):
        return [words for name, words in self.stages[stage] if name == instruction]


class ImageTest(unittest.TestCase):
    def test_it_builds_with_the_packages_of_a_build_by_hand(self):
        image = Image()
        self.assertEqual(len(image.stages), 2)
        install = image.of(0, "RUN")[0]
        lists = set(re.findall(r"\$(\w+)", install))
        self.assertEqual(lists, {"BUILD_PACKAGES", "DEB_PACKAGES"})
        packages = set().union(*map(listed, lists))
        self.assertLessEqual(control("Build-Depends") - {"debhelper-compat"}, packages)
        need("apt-get")
        try:
            output("apt-get", "install", "--simulate", "--no-install-recommends", *sorted(packages))
        except AssertionError as error:
            if "Unable to locate package" in str(error) and not glob.glob("/var/lib/apt/lists/*_Packages*"):
                self.skipTest("apt knows no packages: apt-get update")
            raise

    def test_what_it_copies_and_runs_is_there(self):
        image = Image()
        with open(os.path.join(ROOT, "packaging", "Dockerfile.dockerignore"), encoding="utf-8") as f:
            ignored = f.read().split()
        for copied in image.of(0, "COPY"):
            source = copied.split()[0]
            self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)
            self.assertNotIn(source.split("/")[0], ignored)
        self.assertIn("packaging/deb.sh", image.of(0, "RUN"))
        self.assertTrue(os.access(os.path.join(ROOT, "packaging", "deb.sh"), os.X_OK))

    def test_who_runs_it(self):
        image = Image()
        self.assertEqual(image.of(1, "ENTRYPOINT"), ['["dtrain"]'])
        self.assertEqual(image.of(1, "USER"), ["dtrain"])
        self.assertEqual({words.split()[0] for stage in (0, 1) for words in image.of(stage, "FROM")}, {"debian:bookworm-slim"})
        # What is run where the package is installed names no package of its own.
        last = image.of(1, "RUN")
        self.assertEqual(len(last), 1)
        installed = re.search(r"apt-get install ([^&]*)", last[0]).group(1).split()
        self.assertEqual([w for w in installed if not w.startswith("-")], ["/deb/*.deb"])


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root")
        need("dpkg-buildpackage", "dh", "lintian")
        output("bash", os.path.join(ROOT, "packaging", "deb.sh"), timeout=1700)
        debs = glob.glob(os.path.join(ROOT, "build", "deb", "*.deb"))
        assert len(debs) == 1, debs
        cls.deb = debs[0]

    def test_lintian_says_nothing(self):
        changes = glob.glob(os.path.join(ROOT, "build", "deb", "*.changes"))
        said = output("lintian", "--allow-root", "--fail-on", "error,warning", *changes)
        self.assertEqual(said, "")

    def test_small_and_of_debian_alone(self):
        self.assertLess(os.path.getsize(self.deb), 5_000_000)
        depends = output("dpkg-deb", "-f", self.deb, "Depends")
        names = [re.split(r"[\s(]", d.strip())[0] for d in depends.split(",")]
        self.assertIn("libdnnl2", names)
        for name in names:
            self.assertIn("Origin: Debian", "\n".join(self.release_of(name)), name)

    @staticmethod
    def release_of(package):
        policy = output("apt-cache", "policy", package)
        sites = re.findall(r"^\s+\d+ (\S+) (\S+)/main", policy, re.M)
        targets = output("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) Origin: $(ORIGIN)", "Created-By: Packages")
        return [line for line in targets.splitlines() if tuple(line.split()[:2]) in sites]

    def test_what_is_in_it(self):
        contents = output("dpkg-deb", "-c", self.deb)
        for path in ("./usr/bin/dtrain", "./lib/systemd/system/dtrain@.service", "./etc/dtrain/README",
                     "./usr/share/bash-completion/completions/dtrain", "./usr/share/zsh/vendor-completions/_dtrain",
                     "./usr/share/man/man1/dtrain-run.1.gz", "./usr/share/man/man5/dtrain.toml.5.gz",
                     "./usr/share/doc/dtrain/examples/lenet-fashion.toml", "./usr/share/doc/dtrain/guide/tutorial.md",
                     "./usr/share/doc/dtrain/copyright"):
            self.assertRegex(contents, rf"(?m) {re.escape(path)}$")

    def test_it_is_compiled_as_any_release_build_is(self):
        """So that the compiler's cache has the objects of one for the other."""
        database = os.path.join(ROOT, "build", "compile_commands.json")
        if not os.path.exists(database):
            self.skipTest(f"no {database} to compare with: build dtrain first")

        def command(line, tree):
            words = line[line.index("/c++ "):].replace(tree, "TREE").split()
            source = words[words.index("-c") + 1]
            left_out = {i + n for i, w in enumerate(words) for n in (0, 1) if w in ("-MT", "-MF", "-o")}
            return source, [w for i, w in enumerate(words) if i not in left_out and w != "-MD"]

        with open(database, encoding="utf-8") as f:
            ordinary = dict(command(entry["command"], ROOT) for entry in json.load(f))
        with open(os.path.join(ROOT, "build", "deb", "build.log"), encoding="utf-8", errors="replace") as f:
            lines = [line for line in f if "/c++ " in line and " -c " in line]
        packaged = dict(command(line, os.path.join(ROOT, "build", "deb", "tree")) for line in lines)
        self.assertGreater(len(packaged), 100)
        for source, words in packaged.items():
            self.assertEqual(words, ordinary.get(source), source)

    def test_every_list_of_packages_is_the_same(self):
        tools = {"g++", "ccache"}  # of which Debian's build has its own
        self.assertEqual(listed("BUILD_PACKAGES") - tools, control("Build-Depends") - {"debhelper-compat"})

    def test_a_fresh_debian(self):
        need("debootstrap", "unshare")
        try:
            output("unshare", "--mount", "true")
        except AssertionError as error:
            self.skipTest(f"no mount namespaces: {error}")
        debian = Debian()
        root = tempfile.mkdtemp(prefix="root-", dir=os.path.dirname(self.deb))
        self.addCleanup(shutil.rmtree, root)
        os.chmod(root, 0o755)  # it will be somebody's "/"
        output("debootstrap", "--variant=minbase", debian.release, root, debian.mirror, timeout=900, env=debian.environment())
        debian.configure(root)

        def inside(*command, timeout=600):
            # What is mounted goes with the last process that sees it.
            script = 'mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" "$@"'
            env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
            return output("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", root, *command,
                          timeout=timeout, env=env)

        inside("apt-get", "update", "-q")
        inside("apt-get", "install", "-yq", "--no-install-recommends", "man-db")
        before = self.files(root)
        shutil.copy(self.deb, os.path.join(root, "tmp", "dtrain.deb"))
        inside("apt-get", "install", "-yq", "--no-install-recommends", "/tmp/dtrain.deb")
        os.remove(os.path.join(root, "tmp", "dtrain.deb"))

        self.assertRegex(inside("dtrain", "--version"), r"^dtrain \d+\.\d+\.\d+\n$")
        with open(os.path.join(root, "tmp", "small.toml"), "w") as f:
            f.write(RUN)
        self.assertIn("done: 20 steps", inside("dtrain", "run", "/tmp/small.toml", "--out", "/tmp/out"))
        self.assertIn("done: 20 steps", inside("dtrain", "launch", "/tmp/small.toml", "--workers", "2", "--ps", "1",
                                               "--out", "/tmp/cluster"))
        self.assertIn("forward FLOPs", inside("dtrain", "check", "/usr/share/doc/dtrain/examples/resnet18-synthetic.toml"))
        shutil.rmtree(os.path.join(root, "tmp"))
        os.mkdir(os.path.join(root, "tmp"))
        os.chmod(os.path.join(root, "tmp"), 0o1777)
        pages = [p for p in inside("dpkg", "-L", "dtrain").split() if p.endswith(".gz") and "/man/" in p]
        self.assertGreater(len(pages), 10)
        for page in pages:
            self.assertIn("dtrain", inside("man", "-l", page), page)
        self.assertNotIn("dtrain@", inside("sh", "-c", "ls /etc/systemd/system/*/ 2>/dev/null || true"), "nothing is enabled")

        inside("apt-get", "remove", "-yq", "dtrain")
        self.assertTrue(os.path.exists(os.path.join(root, "etc/dtrain/README")), "configuration stays until it is purged")
        inside("apt-get", "purge", "-yq", "dtrain")
        inside("apt-get", "autoremove", "-yq", "--purge")
        self.assertEqual(sorted(self.files(root) - before), [])

        # A base like this one is what the image is made of: its last steps, as they stand in packaging/Dockerfile.
        image = Image()
        os.mkdir(os.path.join(root, "deb"))
        shutil.copy(self.deb, os.path.join(root, "deb"))
        inside("sh", "-c", re.sub(r"^--mount=\S+ ", "", image.of(1, "RUN")[0]))
        user, place = image.of(1, "USER")[0], image.of(1, "WORKDIR")[0]
        with open(root + place + "/small.toml", "w") as f:
            f.write(RUN)
        said = inside("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "sh", "-c",
                      f"cd {place} && dtrain launch small.toml --workers 2")
        self.assertIn("done: 20 steps", said)

    @staticmethod
    def files(root):
        """All that is there, but for what apt and its tools note down of anything that was ever installed."""
        notes = ("var/lib/apt", "var/lib/dpkg", "var/cache", "var/log", "etc/ld.so.cache", "proc", "sys", "dev", "run")
        found = set()
        for folder, inside, files in os.walk(root):
            relative = os.path.relpath(folder, root)
            inside[:] = [d for d in inside if os.path.normpath(os.path.join(relative, d)) not in notes]
            found |= {p for p in (os.path.normpath(os.path.join(relative, n)) for n in inside + files) if p not in notes}
        return found


if __name__ == "__main__":
    unittest.main()
