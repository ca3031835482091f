"""The registry's own identity: one row."""

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.tables.base import Row


class RegistryRow(Row):
    """`timeline` grows with every restore from a backup; both are part of every fence."""

    __tablename__ = "registry"
    __table_args__ = (CheckConstraint("singleton", name="one_row"),)

    singleton: Mapped[bool] = mapped_column(primary_key=True, default=True)
    id: Mapped[str]
    timeline: Mapped[int] = mapped_column(default=1)
