"""The public names: what a program written for the real package may import, with its signatures (public.txt), and the public
names of torch.cuda, each of which torch.npu has too or refuses for a reason (cuda.yaml).

    python -m tests.api --missing [PREFIX]     names that cannot be imported, or whose signature differs
    python -m tests.api --docs docs/api.md     writes that document
"""

import ast
import enum
import importlib
import inspect
import re
from pathlib import Path

from torch_npu import _api_status

FOLDER = Path(__file__).parent


def public():
    """Name -> signature, without annotations."""
    rows = (FOLDER / "public.txt").read_text().splitlines()
    return dict(re.fullmatch(r"([\w.]+)(\(.*\))", row).groups() for row in rows)


def resolve(name):
    """The object of that name. Modules come before attributes, since some modules share their name with a function."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name and not name.startswith(error.name):
                raise
            continue
        try:
            for part in parts[count:]:
                found = getattr(found, part)
        except AttributeError:
            continue
        if callable(found):
            return found
    raise AttributeError(f"there is no {name}")


def signature(obj):
    """The signature of an object as public.txt writes it."""
    made = inspect.signature(obj)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in made.parameters.values()]
    text = str(made.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<module '([\w.]+)'.*?>", r"\1", text)
    text = re.sub(r"<required parameter>", "required", text)
    text = re.sub(r"<(\w+)\.(\w+): \d+>", r"\1.\2", text)
    text = re.sub(r"<[^>]*>", "...", text)
    text = text.replace("start=1, boundary=None)", "start=1)")  # every Enum has it since Python 3.11
    if isinstance(obj, enum.EnumMeta) and text == "(*values)":  # the same, since Python 3.12
        text = "(value, names=None, *, module=None, qualname=None, type=None, start=1)"
    return f"({ast.unparse(ast.parse(f'def f{text}: pass').body[0].args)})"


def difference(name, expected):
    """The problem with a public name, or None."""
    try:
        obj = resolve(name)
        found = signature(obj)
    except (AttributeError, ImportError) as error:
        return str(error)
    except ValueError:
        return "has no signature"
    return None if found == expected else f"has the signature {found}"


def offers():
    """Name -> ("works", "no-op" or "not offered", reason); of several names of one object, only the shortest."""
    names = sorted(public(), key=lambda name: (name.count("."), name))
    objects = {name: resolve(name) for name in names}
    shortest = {}
    for name, obj in objects.items():
        shortest.setdefault(id(getattr(obj, "__func__", obj)), name)
    return {name: _api_status.state(objects[name]) for name in sorted(shortest.values())}
