"""Tests the check of kernels with programs that mix legacy SSE encodings with wide registers, and with ours.

usage: run.py KERNELS

KERNELS is the example of drystone-xet that has all kernels in it. The programs with planted mistakes are built by rustc. Ends with a line
`kernels: N passed, M failed`.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness import check

# Each is the body of a function that has AVX-512 and SHA extensions: what it does, whether it is a mistake, and its assembly.
PLANTED = [
    ("a wide kernel that cleans up", False, "vpaddd zmm0, zmm0, zmm0", "vzeroupper"),
    ("VEX encodings beside wide registers", False, "vpaddd zmm0, zmm0, zmm0", "vpaddd xmm1, xmm1, xmm1", "vzeroupper"),
    ("legacy SSE after the clean-up", False, "vpaddd zmm0, zmm0, zmm0", "vzeroupper", "paddd xmm1, xmm1"),
    ("registers above the fifteenth", False, "vpaddd zmm16, zmm16, zmm16", "paddd xmm1, xmm1"),
    ("SHA rounds beside wide registers", True, "vpaddd zmm0, zmm0, zmm0", "sha256rnds2 xmm1, xmm2, xmm0", "vzeroupper"),
    ("legacy SSE beside wide registers", True, "vpaddd ymm0, ymm0, ymm0", "paddd xmm1, xmm1", "vzeroupper"),
    ("legacy SSE on the way back of a loop", True, "2:", "paddd xmm1, xmm1", "vpaddd zmm0, zmm0, zmm0", "dec rax", "jnz 2b", "vzeroupper"),
    ("a return without a clean-up", True, "vpaddd zmm0, zmm0, zmm0"),
]

SOURCE = """
use std::arch::naked_asm;
pub mod planted {{
    use super::*;
    #[unsafe(naked)]
    pub extern "C" fn kernel() {{ naked_asm!({lines}, "ret") }}
}}
fn main() {{ println!("{{:p}}", std::hint::black_box(planted::kernel as extern "C" fn())); }}
"""


def judge(program, *names):
    return subprocess.run([ROOT / "scripts/check-kernels.py", program, *names], capture_output=True, text=True)


def main():
    if platform.machine() != "x86_64" or not shutil.which("objdump") or not shutil.which("rustc"):
        check("this machine cannot disassemble kernels of x86-64: nothing to check", True)
        check.finish("kernels")
    judged = judge(sys.argv[1])
    check("our kernels never mix encodings", judged.returncode == 0 and " 0 problems" in judged.stdout, judged.stdout)
    with tempfile.TemporaryDirectory() as folder:
        for number, (what, is_wrong, *lines) in enumerate(PLANTED):
            source, program = Path(folder, f"p{number}.rs"), Path(folder, f"p{number}")
            source.write_text(SOURCE.format(lines=", ".join(f'"{line}"' for line in lines)))
            subprocess.run(["rustc", "--edition", "2024", "-o", program, source], check=True)
            judged = judge(program, "planted::")
            fine = judged.returncode == int(is_wrong) and ("planted::kernel" in judged.stdout) == is_wrong
            check(f"{what} is {'found' if is_wrong else 'fine'}", fine, judged.stdout + judged.stderr)
        empty = judge(program, "no_such_function::")
        check("a program without kernels is not taken for a good one", empty.returncode == 1, empty.stdout)
    check.finish("kernels")


if __name__ == "__main__":
    main()
