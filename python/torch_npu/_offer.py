"""What a public name offers: it works, unless it is marked here as one that does nothing, or as one that is not offered.

    @no_op("softnpu compiles nothing")
    def set_aoe(dump_path): ...

    @not_offered("operators are not fused into one kernel; leave it out")
    def super_kernel_scope_begin(scope_name=None): ...

The signature is that of the marked function. A no-op runs its body, for what it checks or remembers. What is not offered raises
NotImplementedError, which names it and the reason; of a marked class, the constructor and every public method do. docs/api.md
tells users of both, from these marks.
"""

import functools
import inspect


def no_op(reason):
    return lambda obj: _mark(obj, "no-op", reason)


def not_offered(reason):
    def mark(obj):
        if not inspect.isclass(obj):
            return _refusing(obj, reason)
        for name, method in list(vars(obj).items()):
            if isinstance(method, (staticmethod, classmethod)):
                setattr(obj, name, type(method)(_refusing(method.__func__, reason)))
            elif inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
                setattr(obj, name, _refusing(method, reason))
        if "__init__" not in vars(obj):
            obj.__init__ = _refusing(_no_arguments, reason, obj)
        return _mark(obj, "not offered", reason)

    return mark


def state(obj):
    """("works", ""), ("no-op", reason) or ("not offered", reason)."""
    return getattr(obj, "__offer__", ("works", ""))


def _no_arguments(self): ...


def _mark(obj, state, reason):
    obj.__offer__ = (state, reason)
    return obj


def _refusing(function, reason, named=None):
    named = named or function
    name = f"{named.__module__}.{named.__qualname__.removesuffix('.__init__')}"

    @functools.wraps(function)
    def refuse(*_, **__):
        raise NotImplementedError(f"{name} is not offered: {reason}")

    return _mark(refuse, "not offered", reason)
