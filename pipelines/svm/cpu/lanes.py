"""Scalar primitives that LLVM turns into vector instructions.

Numba's own ``max`` and ``min`` on floats carry NaN rules that keep a reduction
scalar.  The gradient never holds a NaN, so these three say less and run eight
lanes at a time.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_DOUBLE = ir.DoubleType()


def _extremum(llvm_name: str) -> Any:
    """Return a float64 maximum or minimum that may assume its arguments are not NaN."""

    @intrinsic  # type: ignore[untyped-decorator]
    def extremum(typing_context: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLE])
            function = builder.module.declare_intrinsic(llvm_name, [_DOUBLE], kind)
            return builder.call(function, args, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), codegen

    return extremum


larger = _extremum("llvm.maxnum")
smaller = _extremum("llvm.minnum")


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(typing_context: Any, x: Any) -> Any:
    """Return the 64 bits of a float64 as an int64 (no conversion)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen
