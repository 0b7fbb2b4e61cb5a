"""Teaches mypy the method that ``import saltwise`` adds to ``DataFrame``.

Without this plugin, mypy reads ``df.skew_groupby`` as a column of that name. Switch it on in setup.cfg or mypy.ini::

    [mypy]
    plugins = saltwise.mypy_plugin

``saltwise.skew_groupby(df, "k")`` needs no plugin.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import FuncBase
from mypy.plugin import AttributeContext, Plugin
from mypy.typeops import bind_self
from mypy.types import FunctionLike, Type, get_proper_type

FUNCTION = "saltwise.spark.grouping.skew_groupby.skew_groupby"


class SaltwisePlugin(Plugin):
    """Gives ``DataFrame.skew_groupby`` the type of :func:`saltwise.skew_groupby`."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Return the hook for an attribute of a DataFrame, classic or of Connect."""
        of_pyspark = fullname.startswith("pyspark.sql.") and fullname.endswith(".DataFrame.skew_groupby")
        return self._method if of_pyspark else None

    def _method(self, context: AttributeContext) -> Type:
        symbol = self.lookup_fully_qualified(FUNCTION)
        function = symbol.node if symbol is not None else None
        declared = get_proper_type(function.type) if isinstance(function, FuncBase) else None
        if not isinstance(declared, FunctionLike):
            return context.default_attr_type
        return bind_self(declared, context.type)


def plugin(version: str) -> type[Plugin]:
    """Return the plugin class: mypy calls this."""
    return SaltwisePlugin
