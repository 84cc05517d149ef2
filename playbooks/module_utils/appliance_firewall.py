"""Rules of iptables that go, out of what ``iptables-save`` prints.

Runs on the node: Python 3.8, standard library. What must not be here: running a program, and which
rules are whose.
"""

from __future__ import annotations


def without_rules(text, ours, own_chain):
    """Return (input that removes rules and chains, their number).

    The text is for ``iptables-restore --noflush``, which keeps everything that it does not name.

    Args:
        text: the output of ``iptables-save``.
        ours: a pattern that finds the lines of what goes.
        own_chain: a pattern of the rules that go with their chain.
    """
    out, dropped, table = [], 0, ""
    chains, rules = [], []
    for line in text.splitlines():
        if line.startswith("*"):
            table, chains, rules = line, [], []
        elif line == "COMMIT":
            if chains or rules:
                flushed = [":%s - [0:0]" % chain for chain in chains]
                out += [table, *flushed, *rules, *("-X %s" % chain for chain in chains), line]
        elif ours.search(line):
            dropped += 1
            if line.startswith(":"):
                chains.append(line[1:].split()[0])
            elif not own_chain.match(line):  # those go with their chain
                rules.append("-D" + line[len("-A") :])
    return "\n".join(out) + "\n", dropped
