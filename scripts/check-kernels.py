#!/usr/bin/env python3
"""Checks that no vector kernel mixes legacy SSE encodings with wide registers.

usage: check-kernels.py PROGRAM [NAME…]

A legacy SSE instruction that runs while the upper halves of vector registers are in use costs an Intel processor some hundred
cycles. So each function of PROGRAM whose name contains one of NAME (the crates of the workspace unless given) is disassembled, and
followed along its branches: from the first instruction that writes a 256 or 512 bit register to `vzeroupper`. In between there may
be no legacy SSE instruction, no call and no return. Ends with 1 when there is one, or when no kernel was found at all.
"""

import platform
import re
import subprocess
import sys

# Crates whose functions are ours, and the libraries whose kernels they call in the same loops.
NAMES = ["xet::", "shardpack::", "gearhash::", "crc_fast::", "blake3"]

HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^ *([0-9a-f]+):\s+(\S+)\s*(.*)$")
WIDE = re.compile(r"%[yz]mm(\d+)")
VECTOR = re.compile(r"%xmm\d+")
PREFIXES = {"lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "addr32"}
# Instructions with legacy encodings alone that never touch the upper halves, or that only read one register into a general one.
HARMLESS = {"ldmxcsr", "stmxcsr"}


def main():
    if platform.machine() != "x86_64":
        print("check-kernels: only for x86_64; nothing to check here")
        return 0
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, names = sys.argv[1], sys.argv[2:] or NAMES
    kernels, problems = 0, []
    for name, code in functions(program, names):
        if any(WIDE.search(operands) for _, _, operands in code):
            kernels += 1
            problems += check(name, code)
    for problem in problems:
        print(f"check-kernels: {problem}")
    if kernels == 0:
        print(f"check-kernels: {program} has no kernel with wide registers; is it stripped?")
        return 1
    print(f"check-kernels: {kernels} functions with wide registers, {len(problems)} problems")
    return 1 if problems else 0


def functions(program, names):
    """Name and instructions of each function: address, mnemonic, operands."""
    command = ["objdump", "-d", "--no-show-raw-insn", "-C", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        name, code = None, []
        for line in process.stdout:
            if header := HEADER.match(line):
                if name:
                    yield name, code
                name = header[1] if any(part in header[1] for part in names) else None
                code = []
            elif name and (found := LINE.match(line)):
                address, mnemonic, operands = found.groups()
                while mnemonic in PREFIXES and operands:
                    mnemonic, _, operands = operands.partition(" ")
                code.append((int(address, 16), mnemonic, operands.strip()))
        if name:
            yield name, code
    if process.returncode:
        sys.exit(f"check-kernels: objdump ended with status {process.returncode}")


def check(name, code):
    """What is wrong with one function, by a walk over its branches that tracks whether upper halves are in use."""
    place = {address: index for index, (address, _, _) in enumerate(code)}
    # Wide arguments come in memory: functions begin with clean upper halves.
    states, todo, problems = {}, [(0, False)], set()
    while todo:
        index, dirty = todo.pop()
        while index < len(code):
            if states.get(index, False) >= dirty and index in states:
                break
            states[index] = states.get(index, False) or dirty
            address, mnemonic, operands = code[index]
            where = f"{name}: {address:x}: {mnemonic} {operands}"
            if mnemonic in ("vzeroupper", "vzeroall"):
                dirty = False
            elif is_dirtying(mnemonic, operands):
                dirty = True
            elif dirty and mnemonic not in HARMLESS and not mnemonic.startswith("v") and VECTOR.search(operands):
                problems.add(f"{where}: legacy SSE while upper halves are in use")
            target = re.match(r"([0-9a-f]+) <", operands)
            inside = target and place.get(int(target[1], 16))
            if mnemonic.startswith("call") and dirty:
                problems.add(f"{where}: call while upper halves are in use")
            if mnemonic.startswith("ret"):
                if dirty:
                    problems.add(f"{where}: return while upper halves are in use")
                break
            if mnemonic.startswith("j"):
                if inside is not None and target:
                    todo.append((inside, dirty))
                elif target and dirty:
                    problems.add(f"{where}: jump to another function while upper halves are in use")
                elif not target:
                    # A jump table: it may lead to any place of the function that nothing else leads to.
                    todo += [(after, dirty) for after in unreached(code, place)]
                if mnemonic == "jmp":
                    break
            if mnemonic in ("ud2", "hlt", "int3"):
                break
            index += 1
    return sorted(problems)


def is_dirtying(mnemonic, operands):
    """Whether it writes a wide register whose upper half legacy instructions would have to keep: the first sixteen."""
    destination = operands.split("#")[0].rsplit(",", 1)[-1].split("{")[0]
    wide = WIDE.fullmatch(destination.strip())
    return mnemonic.startswith("v") and wide is not None and int(wide[1]) < 16


def unreached(code, place):
    """Instructions behind an unconditional jump that no direct jump leads to."""
    direct = {int(target[1], 16) for _, mnemonic, operands in code
              if mnemonic.startswith("j") and (target := re.match(r"([0-9a-f]+) <", operands))}
    ends = ("jmp", "ret", "ud2")
    return [index + 1 for index, (_, mnemonic, _) in enumerate(code[:-1])
            if mnemonic in ends and code[index + 1][0] not in direct]


if __name__ == "__main__":
    sys.exit(main())
