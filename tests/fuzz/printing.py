"""Programs as Python text, which is executed and printed for a failure."""

from .program import parts

PRELUDE = '''
import threading
import torch
import torch_npu
from torch_npu.softnpu import control

INT32 = {"dtype": torch.int32, "device": "npu"}
on, use = torch.npu.stream, torch.npu.use_mem_pool
s0 = torch.npu.default_stream()
s1, s2, s3, s4 = (torch.npu.Stream() for _ in range(4))
s5 = torch.npu.Stream(priority=-1)


def expect(name, x, cells):
    """Each of the equal parts of x holds one number."""
    got = x.cpu().view(len(cells), -1)
    if bool((got == torch.tensor(cells, dtype=torch.int32)[:, None]).all()):
        return
    raise AssertionError(f"{name}: expected {cells}, got {[part.unique().tolist()[:4] for part in got]}")


def together(*functions):
    """Runs the functions, each on a thread of its own."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
'''.lstrip()

RACES = """
for device in range(torch.npu.device_count()):
    torch.npu.synchronize(device)
races = control("races")
assert not races, races
"""


def set_up(program):
    """Lines of one program before its first step."""
    lines = []
    if program.profile.devices > 1:
        lines.append("s6, s7 = (torch.npu.Stream(device=1) for _ in range(2))")
    if program.profile.limit is not None:
        lines.append(f"torch.npu.set_per_process_memory_fraction({program.profile.limit} / torch.npu.mem_get_info()[1])")
    return lines


def body(program, environment):
    """The lines of the steps, and the last checks."""
    lines = [line for lines, _ in parts(program) for line in lines]
    return "\n".join([*set_up(program), *lines]) + "\n" + (RACES if environment.get("SOFTNPU_RACE_CHECK") == "report" else "")


def stand_alone(program, environment):
    """A file to run by itself."""
    settings = "".join(f"os.environ[{name!r}] = {value!r}\n" for name, value in environment.items())
    return f"# seed {program.seed}\nimport os\n\n{settings}\n{PRELUDE}\n\n{body(program, environment)}"
