"""Running aggregates of a stream in a folder: :class:`saltwise.StatefulAggregate`."""
