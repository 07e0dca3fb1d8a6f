"""A Markdown document whose commands can be run: its fenced blocks, what the comments before them say, and a comparison of
what a command prints with what the document shows.

A fence is ```sh (commands that must succeed), ```console (commands behind "$ ", below each what it prints), ```toml or ```text
(a file). A comment on the line before says more:

    <!-- file: NAME -->           toml, text: the block is this file
    <!-- with: NAME -->           toml: these tables are put into the run file NAME, and `dtrain check` must accept that
    <!-- not run: REASON -->      any: the block is only looked at
    <!-- needs: PROGRAM -->       sh, console: not run where that is not installed
    <!-- terminal: NAME -->       console: of this terminal. The last command of the block may still be running when all that
                                  is shown has been printed; a later block of the terminal that begins without "$ " shows more
                                  of the same command, and a line ^C interrupts it.

In what is shown "..." stands for any text or, alone on a line, for any lines; numbers with their units stand for any, and for a
dash that stands in place of a number. A hash
(12 digits or more) and a HOST:PORT stand for one and the same wherever the document has them, and differ where they differ there.
"""
import os, re

KINDS = ("sh", "console", "toml", "text")
WORDS = ("file", "with", "not run", "needs", "terminal")
HASH = r"\b[0-9a-f]{12,64}\b"
ADDRESS = r"\b\d+\.\d+\.\d+\.\d+:\d+\b"
NUMBER = r"[-−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?: ?(?:[kMG]i?B|B|ms|us|µs|s|min|h)\b)?"


class Block:
    def __init__(self, kind, line, comments, text):
        self.kind, self.line, self.comments, self.text = kind, line, comments, text

    def says(self, word):
        return self.comments.get(word)


class Mistake(Exception):
    """Something in the document that the test cannot take."""


def read(path):
    """Its blocks, in order."""
    blocks, comments, open_at = [], {}, None
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for number, line in enumerate(lines, 1):
        at = f"{os.path.basename(path)}:{number}"
        if open_at is not None:
            if line.startswith("```"):
                kind, first, held = open_at
                blocks.append(Block(kind, first, held, "\n".join(lines[first:number - 1]) + "\n"))
                open_at = None
            continue
        if line.startswith("```"):
            kind = line[3:].strip()
            if kind not in KINDS:
                raise Mistake(f"{at}: a block of the unknown kind '{kind}'; known are {', '.join(KINDS)}")
            open_at, comments = (kind, number, comments), {}
        elif line.startswith("    ") and not lines[number - 2].strip():
            raise Mistake(f"{at}: an indented block, which nobody runs; put it between fences")
        elif match := re.fullmatch(r"<!-- ([a-z ]+): (.*\S) -->", line):
            if match[1] not in WORDS:
                raise Mistake(f"{at}: unknown comment '{match[1]}'; known are {', '.join(WORDS)}")
            comments[match[1]] = match[2]
        elif line.startswith("<!--"):
            raise Mistake(f"{at}: a comment that says nothing known: {line}")
        elif comments:
            raise Mistake(f"{at}: a comment about a block that is not there")
    if open_at is not None:
        raise Mistake(f"{path}:{open_at[1]}: a block without an end")
    for block in blocks:
        check(path, block)
    return blocks


def check(path, block):
    at = f"{os.path.basename(path)}:{block.line}"
    said = set(block.comments)
    if "not run" in said:
        if len(block.says("not run").split()) < 2:
            raise Mistake(f"{at}: 'not run' without a reason")
        return
    allowed = {"sh": {"needs"}, "console": {"needs", "terminal"}, "toml": {"file", "with"}, "text": {"file"}}[block.kind]
    if said - allowed:
        raise Mistake(f"{at}: a {block.kind} block cannot have {', '.join(sorted(said - allowed))}")
    if block.kind in ("toml", "text") and not said:
        raise Mistake(f"{at}: of which file is this? say 'file', 'with' or 'not run'")


def commands(text):
    """Of a console block: (command or None where it goes on with the one before, [lines that it shows])."""
    found = []
    for line in text.rstrip("\n").split("\n"):
        if found and found[-1][0] and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line.removeprefix("> "), [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        else:
            if not found:
                found.append((None, []))
            found[-1][1].append(line)
    return found


class Names:
    """What stands for what: hashes and addresses of the document, and those that are there when it is run."""

    def __init__(self):
        self.real, self.shown = {}, {}

    def learn(self, pairs):
        """Learns what each shown name really is; nothing, and False, where that contradicts what is known."""
        real, shown = dict(self.real), dict(self.shown)
        for name, value in pairs:
            if real.setdefault(name, value) != value or shown.setdefault(value, name) != name:
                return False
        self.real, self.shown = real, shown
        return True

    def put(self, text):
        """The text with what is real in place of what is shown."""
        if not self.real:
            return text
        known = "|".join(map(re.escape, sorted(self.real, key=len, reverse=True)))
        return re.sub(rf"(?<![\w.])(?:{known})(?!\w)", lambda m: self.real[m[0]], text)


def pattern(shown):
    """A regular expression for the lines that look like this one; its groups are the hashes and addresses, which come too."""
    parts, named = [], []
    for piece in re.split(rf"(\.\.\.|…|{HASH}|{ADDRESS}|{NUMBER}|\s+)", shown.strip()):
        if re.fullmatch(ADDRESS, piece) or re.fullmatch(HASH, piece) and not piece.isdigit():
            named.append(piece)
            parts.append(f"({ADDRESS if ':' in piece else HASH})")
        elif piece in ("...", "…"):
            parts.append(".*")
        elif re.fullmatch(NUMBER, piece):
            parts.append(rf"\s*(?:{NUMBER}|-(?!\S))")
        elif piece.isspace():
            parts.append(r"\s+")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts).replace(r"\s+\s*", r"\s+")), named


class Shown:
    """Lines that a document shows, to be found in what was printed."""

    def __init__(self, lines, names):
        # Runs of lines that follow each other; "..." is between two of them.
        self.runs, self.names, self.why, self.used = [[]], names, "", 0
        for line in filter(str.strip, lines):
            if line.strip() in ("...", "…"):
                self.runs.append([])
            else:
                self.runs[-1].append(line)

    def found_in(self, printed, whole):
        """Whether all are there, in order and without others between; with `whole` also nothing before and after them. `used`
        is how many lines of what was printed that took."""
        at, last = 0, len(self.runs) - 1
        for i, run in enumerate(self.runs):
            latest = len(printed) - len(run)
            first = latest if i == last and i > 0 and whole and run else at
            places = range(max(at, first), (at if i == 0 else latest) + 1)
            place = next((p for p in places if self._at(run, printed, p)), None)
            if place is None:
                if not places:
                    self.why = "shown, but not printed: " + (run[len(printed) - at] if 0 <= len(printed) - at < len(run) else run[0])
                return False
            at = place + len(run)
        self.used = len(printed) if last > 0 and not self.runs[-1] else at
        if whole and self.used < len(printed):
            self.why = f"printed, but not shown: {printed[self.used]}"
            return False
        return True

    def _at(self, run, printed, place):
        pairs = []
        for i, line in enumerate(run):
            if place + i == len(printed):
                self.why = f"shown, but not printed: {line}"
                return False
            expression, named = pattern(line)
            match = expression.fullmatch(printed[place + i].strip())
            if not match:
                self.why = f"shown    {line}\nprinted  {printed[place + i]}"
                return False
            pairs += zip(named, match.groups())
        if not self.names.learn(pairs):
            self.why = "another hash or address than the document has said before: " + ", ".join(f"{a} is {b}" for a, b in pairs)
            return False
        return True
