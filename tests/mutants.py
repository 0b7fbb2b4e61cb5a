"""Puts small faults into a copy of the checkout, one at a time, and says which tests notice them.

    python tests/mutants.py [NAME ...] [--folder plugin/src/org/apache/spark/sql/saltwise/local] [--list] [--base-selection]

Each row of MUTANTS is a fault that a maintainer could make. The tests run as `make test` runs them, without the long ones.
A fault in Scala is compiled first, for Scala 2.13. Prints one line a mutant and writes the same to build/mutants.csv; what
pytest printed is in build/mutants/. Exits with 1 if more than one mutant in fifteen is not caught, or if a row is stale.
With --base-selection the tests run on the code as it is, where all of them have to pass.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "mutants"
MISSED_OF = 15
"""One mutant in so many may be missed."""
CAUGHT, NOT_CAUGHT, WRONG_ROW = "caught", "NOT CAUGHT", "WRONG ROW"
PLUGIN = "plugin/src/org/apache/spark/sql/saltwise"
PYTHON = "python/saltwise"
JAR = f"{PYTHON}/jars/saltwise_2.13.jar"
BUILD = f"import setup; from pathlib import Path; setup.build_jar(Path('{JAR}'), setup.installed_spark())"


@dataclass(frozen=True)
class Mutant:
    """A fault: a text of a file, and what stands there instead."""

    name: str
    file: str
    """Relative to the root."""
    old: str
    """It occurs once in the file."""
    new: str
    tests: tuple[str, ...]
    """The test files that should notice, relative to tests/, the cheapest first."""


MUTANTS = [
    # The plugin: top and plan/
    Mutant(
        "the-session-wins-over-the-hint",
        f"{PLUGIN}/SkewOptions.scala",
        "SaltwiseConf.settings(conf) ++ hint",
        "hint ++ SaltwiseConf.settings(conf)",
        ("plans/test_golden.py", "plans/test_keys.py", "plans/test_functions.py"),
    ),
    Mutant(
        "a-filter-is-ignored-in-one-phase",
        f"{PLUGIN}/plan/AggregatePhases.scala",
        "aggregates.map(_.copy(mode = Complete))",
        "aggregates.map(_.copy(mode = Complete, filter = None))",
        ("plans/test_settings.py", "plans/test_combine.py"),
    ),
    Mutant(
        "negative-zero-and-nan-are-keys-of-their-own",
        f"{PLUGIN}/plan/GroupingKeys.scala",
        "NormalizeFloatingNumbers.normalize(hashable(key))",
        "hashable(key)",
        (
            "sketches/test_sketch_functions.py",
            "sketches/test_items.py",
            "placement/test_placed_groups.py",
            "placement/test_placement_by_conf.py",
            "plans/test_keys.py",
            "plans/test_functions.py",
        ),
    ),
    Mutant(
        "no-reason-for-a-plan-left-alone",
        f"{PLUGIN}/plan/SkewAggregation.scala",
        "reason => stock.map(SkewLeftAloneExec(reason, _)),",
        "_ => stock,",
        ("plans/test_auto.py", "reports/test_explain.py"),
    ),
    Mutant(
        "rows-are-cut-by-columns-that-may-change",
        f"{PLUGIN}/plan/RewriteSkewGroupBys.scala",
        "column.deterministic && column.references.subsetOf(stable)).map(_.toAttribute)",
        "column.deterministic).map(_.toAttribute)",
        ("plans/test_split.py",),
    ),
    Mutant(
        "a-users-exchange-that-spark-drops-is-forgotten",
        f"{PLUGIN}/plan/AskedPartitions.scala",
        "node.copy(isDropped = true)",
        "node.copy(isDropped = false)",
        ("plans/test_contracts.py",),
    ),
    # routing/
    Mutant(
        "one-candidate-less-than-choices",
        f"{PLUGIN}/routing/HashFamily.scala",
        "while (i <= d)",
        "while (i < d)",
        ("sketches/test_python_like_plugin.py", "plans/test_balance.py"),
    ),
    Mutant(
        "rows-of-a-shuffle-keep-their-order-of-arrival",
        f"{PLUGIN}/routing/RepeatableOrderExec.scala",
        "if (rows.outputDeterministicLevel == DeterministicLevel.DETERMINATE) rows",
        "if (rows.outputDeterministicLevel != DeterministicLevel.INDETERMINATE) rows",
        ("plans/test_repeatable_order.py",),
    ),
    Mutant(
        "sums-of-doubles-choose-workers",
        f"{PLUGIN}/routing/StableColumns.scala",
        "BooleanType | BinaryType | StringType => true",
        "BooleanType | BinaryType | StringType | DoubleType => true",
        ("plans/test_auto.py", "plans/test_repeatable_order.py"),
    ),
    Mutant(
        "ties-may-decide-which-rows-are-routed",
        f"{PLUGIN}/routing/RoutedRows.scala",
        "case None if !StableColumns.sameStableRows(rows) =>",
        "case None if false =>",
        ("plans/test_contracts.py",),
    ),
    # local/
    Mutant(
        "a-guarded-argument-is-evaluated-for-every-row",
        f"{PLUGIN}/local/RawRows.scala",
        "others.forall(_.foldable) && ",
        "",
        ("plans/test_contracts.py",),
    ),
    Mutant(
        "the-row-after-a-group-is-lost",
        f"{PLUGIN}/local/Leaving.scala",
        "    nextRow += n\n",
        "    nextRow += n + 1\n",
        ("plans/test_combine.py",),
    ),
    Mutant(
        "keys-with-one-hash-share-a-state",
        f"{PLUGIN}/local/PartialStates.scala",
        "while (i < end && keyOf.groups.areSame(group, keyOf.group(bucket.read(i, row))) &&",
        "while (i < end && { bucket.read(i, row); true } &&",
        ("plans/test_combine.py",),
    ),
    Mutant(
        "a-value-that-becomes-null-stays-as-it-was",
        f"{PLUGIN}/local/StateProjection.scala",
        "if ($isNull || $value != $before)",
        "if (!$isNull && $value != $before)",
        ("plans/test_functions.py", "plans/test_combine.py"),
    ),
    Mutant(
        "a-large-window-counts-what-small-ones-had-counted",
        f"{PLUGIN}/local/KeySample.scala",
        "      if (level + 1 < Levels) openBelow(level + 1).next(1, open(level))\n",
        "",
        ("plans/test_key_sample.py",),
    ),
    Mutant(
        "rows-wait-below-a-join-though-they-share-no-keys",
        f"{PLUGIN}/local/CombineIterator.scala",
        "if (sample.rows < decideAfter) { if (belowJoin) guess() }",
        "if (sample.rows < decideAfter) {}",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "raw-rows-of-a-key-with-states-are-not-merged",
        f"{PLUGIN}/local/UpdateOrMerge.scala",
        "      both.add(function.deserialize(function.serialize(both.updated)))\n",
        "",
        ("plans/test_combine.py", "plans/test_keys.py", "plans/test_functions.py"),
    ),
    Mutant(
        "states-that-left-keep-their-memory",
        f"{PLUGIN}/local/HeldStates.scala",
        "      memory.give(takenBytes)\n",
        "",
        ("plans/test_combine.py",),
    ),
    Mutant(
        "wide-rows-overlap",
        f"{PLUGIN}/local/RowPages.scala",
        "(bytes - 1) / PageBytes + 1",
        "bytes / PageBytes",
        ("plans/test_combine.py",),
    ),
    # window/
    Mutant(
        "a-slice-carries-its-own-rows",
        f"{PLUGIN}/window/SliceStates.scala",
        "val before = running(states).init",
        "val before = running(states).tail",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "the-row-of-the-states-has-a-rank",
        f"{PLUGIN}/window/CarriedFunctions.scala",
        "If(EqualTo(inThis, one), one, new Subtract(inThis, columns.ahead))",
        "inThis",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "a-sum-that-failed-is-carried",
        f"{PLUGIN}/window/SlicesSent.scala",
        "if (failed) null",
        "if (false) null",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "a-filter-drops-the-states",
        f"{PLUGIN}/window/CarriedFunctions.scala",
        "e.filter.map(Or(IsNotNull(columns.state), _))",
        "e.filter",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "a-slice-gets-rows-from-far",
        f"{PLUGIN}/window/NearRows.scala",
        "sorted(parts.flatMap(_.last)).takeRight(atBack))",
        "sorted(parts.flatMap(_.last)).take(atBack))",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "rows-that-tie-have-no-order",
        f"{PLUGIN}/window/SkewWindowExec.scala",
        "near.fold(rows)(_.inOrder(rows, slice.rows, slice.edges))",
        "rows",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "short-slices-read-past-their-neighbours",
        f"{PLUGIN}/window/SkewWindowExec.scala",
        "carried.near.exists(!_.areEnough(slices.map(_.rows), carried.begins))",
        "false",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "slices-of-one-key-go-on-from-another",
        f"{PLUGIN}/window/SkewWindowExec.scala",
        "if (keys.isEmpty) Seq(0 until n) else {",
        "if (true) Seq(0 until n) else {",
        ("windows/test_hot_partitions.py",),
    ),
    Mutant(
        "two-frames-of-a-function-are-one",
        f"{PLUGIN}/window/CarriedFunctions.scala",
        "(function.canonicalized, frame.canonicalized),",
        "(function.canonicalized, function.canonicalized),",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "a-window-above-goes-on-from-another-key",
        f"{PLUGIN}/window/SkewWindowExec.scala",
        "ofPartitions.map(_.start)",
        "ofPartitions.indices",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "a-union-of-a-window-and-other-rows-is-grouped-twice",
        f"{PLUGIN}/window/SampleWindowKeys.scala",
        "!plan.exists(_.isInstanceOf[UnionExec]) || ValidateRequirements.validate(sampling)",
        "true",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "the-branches-of-a-union-have-no-samples",
        f"{PLUGIN}/window/SampleWindowKeys.scala",
        "canEqual(other) && super.equals(other)",
        "this eq other.asInstanceOf[AnyRef]",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "decimals-of-too-many-digits-are-null",
        f"{PLUGIN}/window/SliceStates.scala",
        "written.isNullAt(i) && !state.isNullAt(i)",
        "written.isNullAt(i) && state.isNullAt(i) && false",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "an-exchange-goes-though-a-join-above-relies-on-it",
        f"{PLUGIN}/join/SkewJoinSplit.scala",
        "marked.decidedIn(before, left)",
        "Some(marked.replacedIn(before, left))",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "a-column-that-states-need-is-pruned",
        f"{PLUGIN}/join/CombinedRows.scala",
        "AttributeSet(added.filterNot(child.outputSet.contains) :+ noState.toAttribute)",
        "AttributeSet(added :+ noState.toAttribute)",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "two-joins-shuffle-the-same-rows-twice",
        f"{PLUGIN}/join/SharedSides.scala",
        "found.length < joins.length || found.map(_.canonicalized).distinct.length > 1",
        "found.length < joins.length",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "a-users-repartition-goes-with-an-exchange-of-ours",
        f"{PLUGIN}/plan/AskedPartitions.scala",
        "inStock.fastEquals(node.child) || isAsked(inStock.outputPartitioning)",
        "inStock.fastEquals(node.child) || node.child.exists(_ ne node)",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "other-keys-of-an-oversize-partition-are-lost",
        f"{PLUGIN}/window/SliceHotKeys.scala",
        "(whole :+ otherRows).map",
        "whole.map",
        ("windows/test_hot_partitions.py",),
    ),
    Mutant(
        "a-range-begins-at-the-first-value",
        f"{PLUGIN}/window/OrderCuts.scala",
        "val lasts = rows.map(_._1).take(1) ++ cuts",
        "val lasts = rows.map(_._1).takeRight(1) ++ cuts",
        ("windows/test_hot_partitions.py",),
    ),
    Mutant(
        "an-average-loses-other-bits-than-stock",
        f"{PLUGIN}/window/SliceStates.scala",
        "state.getDouble(i) >= FirstInexact",
        "state.getDouble(i) < 0",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "a-share-is-taken-before-its-total-is-known",
        f"{PLUGIN}/window/TotalsBesideOrder.scala",
        " && !reads(window, below) =>",
        " =>",
        ("windows/test_slices.py",),
    ),
    Mutant(
        "slices-are-gathered-for-the-window-above",
        f"{PLUGIN}/window/SliceWindows.scala",
        "WindowReasons.shares(window) && !staying(idOf(window))",
        "!staying(idOf(window))",
        ("windows/test_shared_slices.py",),
    ),
    Mutant(
        "slices-of-rows-that-may-differ-are-shared",
        f"{PLUGIN}/window/WindowReasons.scala",
        "ofOwnSlices(below).isEmpty && repeats(below.child.output, below.child))",
        "ofOwnSlices(below).isEmpty)",
        ("windows/test_shared_slices.py",),
    ),
    # join/
    Mutant(
        "the-condition-of-a-join-tells-no-keys",
        f"{PLUGIN}/join/SinksAggregate.scala",
        "val read = needed ++ AttributeSet(join.condition.toSeq)",
        "val read = needed ++ AttributeSet(join.condition.toSeq.take(0))",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "a-filter-above-a-join-tells-no-keys",
        f"{PLUGIN}/join/SinksAggregate.scala",
        "below(child, needed ++ condition.references, functions)",
        "below(child, needed, functions)",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "the-side-that-an-outer-join-fills-is-combined",
        f"{PLUGIN}/join/SinksAggregate.scala",
        "case RightOuter => Seq(join.right)",
        "case RightOuter => Seq(join.left)",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "unique-rows-are-combined-below-a-join",
        f"{PLUGIN}/join/SinksAggregate.scala",
        "!areKeys || isUnique ||",
        "!areKeys ||",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "errors-below-a-join-are-raised",
        f"{PLUGIN}/local/PartialStates.scala",
        "case NonFatal(_) if mayFail =>",
        "case NonFatal(_) if mayFail && failed < 0 =>",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "zeros-of-both-signs-are-two-groups",
        f"{PLUGIN}/plan/AggregatePhases.scala",
        "    inOnePhase(first.groupingExpressions, ",
        "    inOnePhase(first.groupingExpressions.map(_.toAttribute), ",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "an-undecided-aggregate-is-compared-as-it-stands",
        f"{PLUGIN}/plan/UndecidedExec.scala",
        "even.getOrElse(child).canonicalized",
        "child.canonicalized",
        ("plans/test_partition_pruning.py",),
    ),
    Mutant(
        "a-subquery-that-prunes-stays-as-it-is",
        f"{PLUGIN}/WithSubqueries.scala",
        "pruning.withNewPlan(once(pruning.plan))",
        "pruning",
        ("plans/test_partition_pruning.py",),
    ),
    Mutant(
        "a-side-that-prunes-is-split",
        f"{PLUGIN}/split/SplitSkewedPartitions.scala",
        "case side: BroadcastExchangeLike => side.exists(_ eq split)",
        "case side: BroadcastExchangeLike => side eq split",
        ("plans/test_partition_pruning.py",),
    ),
    Mutant(
        "an-exchange-with-another-name-for-its-key-comes-back",
        f"{PLUGIN}/join/SkewJoinSplit.scala",
        "even.getOrElse(child).outputPartitioning",
        "joined.getOrElse(child).outputPartitioning",
        ("joins/test_join_edges.py",),
    ),
    Mutant(
        "a-repartition-by-the-keys-of-a-window-goes",
        f"{PLUGIN}/plan/AskedPartitions.scala",
        "case window: WindowExec => window.partitionSpec.nonEmpty",
        "case window: WindowExec => window.partitionSpec.length > 99",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "rows-of-two-hot-keys-are-not-sorted-by-key",
        f"{PLUGIN}/window/SliceHotKeys.scala",
        "if (hot.length == others) hotRows",
        "if (hot.length >= others) hotRows",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "a-window-that-is-there-twice-runs-in-slices",
        f"{PLUGIN}/window/SliceWindows.scala",
        ".values.filter(_.length > 1)",
        ".values.filter(_.length > 99)",
        ("windows/test_window_edges.py", "plans/test_partition_pruning.py"),
    ),
    Mutant(
        "a-live-source-is-read-twice",
        f"{PLUGIN}/window/WindowReasons.scala",
        "case table: DataSourceV2ScanRelation => !table.scan.isInstanceOf[FileScan]",
        "case table: DataSourceV2ScanRelation => false",
        ("windows/test_window_edges.py",),
    ),
    Mutant(
        "rows-below-a-worker-lose-their-order",
        f"{PLUGIN}/routing/RepeatableOrderExec.scala",
        "if (order.isEmpty) UnsafeExternalRowSorter",
        "if (order.length < 99) UnsafeExternalRowSorter",
        ("plans/test_plan_edges.py",),
    ),
    Mutant(
        "an-idle-combine-stays",
        f"{PLUGIN}/join/DropIdleCombine.scala",
        "case combine: CombineExec if combine.belowJoin => dropped(combine.child)\n    case other",
        "case combine: CombineExec if combine.memory < 0 => dropped(combine.child)\n    case other",
        ("joins/test_aggregate_below_join.py",),
    ),
    Mutant(
        "objects-whose-arguments-may-fail-are-combined",
        f"{PLUGIN}/join/AggregateBelowJoin.scala",
        "function.children.forall(neverFails)",
        "function.children.nonEmpty",
        ("joins/test_aggregate_below_join.py",),
    ),
    # split/
    Mutant(
        "rows-of-a-slice-are-read-twice",
        f"{PLUGIN}/split/SplitReads.scala",
        "Math.floorMod(hash, count.toLong) == number",
        "Math.floorMod(hash, count.toLong) <= number",
        ("plans/test_split.py",),
    ),
    Mutant(
        "a-run-of-partitions-ends-one-too-early",
        f"{PLUGIN}/split/Received.scala",
        "runs.last.start until i + 1",
        "runs.last.start until i",
        ("plans/test_split.py", "plans/test_auto.py"),
    ),
    # placement/
    Mutant(
        "a-join-takes-placement-for-its-own-hash",
        f"{PLUGIN}/placement/PlacementPartitioning.scala",
        "    PlacementShuffleSpec(workers)",
        "    super.createShuffleSpec(distribution)",
        ("placement/test_placed_groups.py", "placement/test_placement_by_conf.py"),
    ),
    Mutant(
        "a-key-is-placed-on-worker-n",
        f"{PLUGIN}/placement/PartitionFunction.scala",
        "HashFamily.worker(key, 1, workers)",
        "HashFamily.worker(key, 1, workers + 1)",
        ("placement/test_placed_groups.py", "placement/test_placement_by_conf.py"),
    ),
    Mutant(
        "the-cost-of-keys-is-ignored",
        f"{PLUGIN}/placement/LargestFirstSubquery.scala",
        "Literal(OffGreedy(options.parameters).capacity), weight(cost, rows))",
        'Literal(OffGreedy(options.parameters).capacity), weight("rows", rows))',
        (
            "placement/test_placed_groups.py",
            "placement/test_placement_by_conf.py",
            "unit/test_options.py",
            "aggregators/test_grouping_options.py",
        ),
    ),
    Mutant(
        "every-order-by-gets-a-limit",
        f"{PLUGIN}/split/OptimizeAboveSplits.scala",
        "NoteLimits.of(sort).fold[LogicalPlan](sort)(limit => Limit(Literal(limit), sort))",
        "sort.maxRows.fold[LogicalPlan](sort)(rows => Limit(Literal(rows.toInt), sort))",
        ("plans/test_contracts.py",),
    ),
    # streaming/, state/, report/, compat/, sketch/
    Mutant(
        "a-stream-knows-the-head-of-its-oldest-batches",
        f"{PLUGIN}/streaming/StreamMetrics.scala",
        '(_.getAs[Row]("head")).reverseIterator',
        '(_.getAs[Row]("head")).iterator',
        ("streams/test_streaming.py",),
    ),
    Mutant(
        "batches-of-a-sink-with-queries-are-not-seen",
        f"{PLUGIN}/state/StateListener.scala",
        'property("spark.sql.execution.root.id").orElse(property("spark.sql.execution.id"))',
        'property("spark.sql.execution.id")',
        ("unit/test_steering.py", "streams/test_state_balancer.py"),
    ),
    Mutant(
        "a-hint-makes-another-query",
        f"{PLUGIN}/report/GroupByListener.scala",
        "Reported.withoutHints(query.analyzed).semanticHash()",
        "query.analyzed.semanticHash()",
        ("plans/test_ways_in.py",),
    ),
    Mutant(
        "spark-ends-jobs-whose-states-differ",
        f"{PLUGIN}/compat/SparkCompat.scala",
        "rowsMustAgree.foreach(_.setBoolean(shuffle, false))",
        "rowsMustAgree.foreach(_.setBoolean(shuffle, true))",
        ("plans/test_auto.py",),
    ),
    Mutant(
        "a-full-sketch-has-missed-nothing",
        f"{PLUGIN}/sketch/SpaceSaving.scala",
        "if (counters < capacity) unseen else {",
        "if (counters <= capacity) unseen else {",
        (
            "unit/test_spacesaving.py",
            "sketches/test_python_like_plugin.py",
            "sketches/test_sketch_functions.py",
            "sketches/test_items.py",
        ),
    ),
    Mutant(
        "null-is-not-counted",
        f"{PLUGIN}/sketch/SketchAggregates.scala",
        "if (rows > 0) sketch.add",
        "if (rows > 0 && item.eval(row) != null) sketch.add",
        ("sketches/test_sketch_functions.py", "sketches/test_items.py", "reports/test_report.py"),
    ),
    # Python: sketches/, splitting/, placement/, rebalancing/
    Mutant(
        "a-merged-summary-bounds-what-one-part-missed",
        f"{PYTHON}/sketches/space_saving.py",
        "max(missed_here + missed_there, dropped)",
        "max(missed_here, missed_there, dropped)",
        ("unit/test_spacesaving.py", "sketches/test_python_like_plugin.py"),
    ),
    Mutant(
        "a-window-is-one-step-too-short",
        f"{PYTHON}/sketches/sliding_counts.py",
        "self._step = window // (counters - 1)",
        "self._step = window // counters",
        ("unit/test_lossycounting.py",),
    ),
    Mutant(
        "all-sources-give-ties-to-the-first-worker",
        f"{PYTHON}/splitting/pkg.py",
        "load[first] < load[second] or (load[first] == load[second] and index % 2 == 0)",
        "load[first] <= load[second]",
        ("sketches/test_python_like_plugin.py",),
    ),
    Mutant(
        "a-prefix-of-the-head-has-a-key-too-few",
        f"{PYTHON}/splitting/choices.py",
        "float((i + 1) * d)",
        "float(i * d)",
        ("unit/test_algorithms.py", "unit/test_simulate.py", "aggregators/test_arrow_engine.py"),
    ),
    Mutant(
        "the-migration-budget-is-ignored",
        f"{PYTHON}/placement/history.py",
        "bool(migration <= max_migration and PAYS_WITHIN * gain > migration)",
        "bool(PAYS_WITHIN * gain > migration)",
        ("unit/test_placement_store.py",),
    ),
    Mutant(
        "a-round-moves-any-number-of-bytes",
        f"{PYTHON}/rebalancing/rounds.py",
        "        bytes_left -= cluster.cost[first]\n",
        "",
        ("unit/test_rounds.py", "unit/test_steering.py", "streams/test_state_balancer.py"),
    ),
    Mutant(
        "flux-lets-two-nodes-change-places",
        f"{PYTHON}/rebalancing/flux.py",
        "(load < loads[giver] - loads[taker])",
        "(load <= loads[giver] - loads[taker])",
        ("unit/test_rebalancing.py",),
    ),
    # spark/
    Mutant(
        "counts-of-keys-are-no-lower-bounds",
        f"{PYTHON}/spark/grouping/key_weights.py",
        'row["count"] - row["error"]',
        'row["count"]',
        ("placement/test_key_weights.py",),
    ),
    Mutant(
        "a-batch-that-comes-again-counts-twice",
        f"{PYTHON}/spark/kept_state/batch_update.py",
        "batch_id <= last.batch",
        "batch_id < last.batch",
        ("streams/test_stateful.py",),
    ),
    Mutant(
        "a-group-that-moves-stays-in-its-old-files-too",
        f"{PYTHON}/spark/kept_state/layout.py",
        "changed if before is None else changed | set(before.function.place(moving).tolist())",
        "changed",
        ("unit/test_layout.py",),
    ),
    Mutant(
        "a-state-that-is-passed-on-leaves-as-well",
        f"{PYTHON}/spark/aggregators/map_side.py",
        "before.states.pop(carried[code])",
        "before.states[carried[code]]",
        ("unit/test_aggregator_tasks.py", "aggregators/test_aggregator.py"),
    ),
    Mutant(
        "a-key-that-goes-on-in-the-next-batch-begins-anew",
        f"{PYTHON}/spark/aggregators/reduce_side.py",
        "if i or unfinished is None:",
        "if i or numbers:",
        ("unit/test_aggregator_tasks.py", "aggregators/test_aggregator.py"),
    ),
    # The other floors
    Mutant(
        "epsilon-of-the-session-is-ignored",
        f"{PYTHON}/options.py",
        '_number("epsilon", session["epsilon"], float) if "epsilon" in session else EPSILON',
        "EPSILON",
        ("unit/test_options.py", "aggregators/test_grouping_options.py"),
    ),
    Mutant(
        "tasks-of-a-stage-wait-for-no-core",
        f"{PYTHON}/advise/schedule.py",
        "math.ceil(n / cores) * total / n",
        "max(1, n // cores) * total / n",
        ("unit/test_event_log.py", "unit/test_docstrings.py"),
    ),
    Mutant(
        "merged-means-lie-in-the-middle",
        f"{PYTHON}/aggregates/moments.py",
        "a.mean + apart * (b.rows / rows)",
        "a.mean + apart / 2",
        ("unit/test_aggregates.py",),
    ),
    Mutant(
        "the-key-of-a-message-costs-a-merge-alone",
        f"{PYTHON}/simulate.py",
        "int((self.states_per_key > 0).sum())",
        "int((self.states_per_key > 1).sum())",
        ("unit/test_simulate.py", "aggregators/test_arrow_engine.py"),
    ),
    Mutant(
        "the-hottest-key-has-rank-two",
        f"{PYTHON}/streams.py",
        "np.arange(1, keys + 1, dtype=float)",
        "np.arange(2, keys + 2, dtype=float)",
        ("unit/test_streams.py",),
    ),
    Mutant(
        "the-command-ignores-theta",
        f"{PYTHON}/cli/commands.py",
        "partitions=partitions, theta=theta, epsilon=epsilon)\n        except",
        "partitions=partitions, epsilon=epsilon)\n        except",
        ("unit/test_command.py", "cli/test_cli.py"),
    ),
]


class RowError(Exception):
    """A row of the table does not fit the code, or its tests did not run."""


class Checkout:
    """A copy of the checkout in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        jars = [str(jar.relative_to(ROOT)) for jar in (ROOT / JAR).parent.glob("*.jar")]
        for name in (*names, *jars):
            if (ROOT / name).is_file():  # git also lists files that were just removed
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def failing_test(self, mutant: Mutant) -> str | None:
        """Put a fault in, run its tests, and take it out again; return the first test that failed."""
        before = {name: (self.folder / name).read_bytes() for name in (mutant.file, JAR)}
        source = before[mutant.file].decode()
        if source.count(mutant.old) != 1:
            raise RowError(f"the text occurs {source.count(mutant.old)} times in {mutant.file}")
        (self.folder / mutant.file).write_text(source.replace(mutant.old, mutant.new))
        try:
            if self._run(["-c", BUILD], mutant).returncode:
                raise RowError("it does not compile")
            return self._first_failure(mutant)
        finally:
            for name, content in before.items():
                (self.folder / name).write_bytes(content)

    def _first_failure(self, mutant: Mutant) -> str | None:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not bench", "-o", "timeout=300"]
        done = self._run(["-m", "pytest", *options, *(f"tests/{name}" for name in mutant.tests)], mutant)
        failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode != (failed is not None):
            raise RowError(f"pytest ended with status {done.returncode}")
        return failed and failed[1]

    def _run(self, command: list[str], mutant: Mutant) -> subprocess.CompletedProcess[str]:
        # numba does not see a change of a function that it has compiled into another one.
        compiled = mutant.name if mutant.file.startswith(PYTHON) else "of the checkout"
        paths = {"PYTHONPATH": self.folder / "python", "NUMBA_CACHE_DIR": self.folder / "build" / "numba" / compiled}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=os.environ | {name: str(path) for name, path in paths.items()} | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        (OUT / f"{mutant.name}.log").write_text(done.stdout)
        return done


def main() -> int:
    parser = argparse.ArgumentParser(description="Say which small faults the tests notice.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all by default")
    parser.add_argument("--folder", default="", help="only the mutants of files below this folder")
    parser.add_argument("--list", action="store_true", help="list the mutants, and run nothing")
    parser.add_argument("--base-selection", action="store_true", help="run the tests on the code as it is")
    given = parser.parse_args()
    if unknown := {*given.names} - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    chosen = [each for each in MUTANTS if each.name in (given.names or [each.name])]
    chosen = [each for each in chosen if Path(each.file).is_relative_to(given.folder)]
    if not chosen:
        parser.error(f"there is no mutant below {given.folder}")
    if given.list:
        print(*(f"{mutant.name:60}{mutant.file}" for mutant in chosen), sep="\n")
        return 0
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="saltwise-mutants-", ignore_cleanup_errors=True) as folder:
        checkout = Checkout(Path(folder))
        if given.base_selection:
            tests = dict.fromkeys(test for mutant in chosen for test in mutant.tests)
            failed = checkout.failing_test(replace(chosen[0], name="none", new=chosen[0].old, tests=tuple(tests)))
            print(f"without a fault: {failed or 'all tests pass'}")
            return int(failed is not None)
        rows = [tried(checkout, mutant) for mutant in chosen]
    with OUT.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows([("mutant", "file", "result", "test", "seconds"), *rows])
    results = Counter(row[2] for row in rows)
    print(", ".join(f"{count} {result}" for result, count in results.items()))
    return int(results[WRONG_ROW] > 0 or MISSED_OF * results[NOT_CAUGHT] > len(rows))


def tried(checkout: Checkout, mutant: Mutant) -> tuple[str, str, str, str, int]:
    """Try a mutant, print what came of it, and return it as a row of the table."""
    began = time.monotonic()
    try:
        test = checkout.failing_test(mutant)
        result, what = (NOT_CAUGHT, f"of {', '.join(mutant.tests)}") if test is None else (CAUGHT, test)
    except RowError as error:
        result, what = WRONG_ROW, str(error)
    seconds = round(time.monotonic() - began)
    print(f"{mutant.name}: {result}: {what} ({seconds} s)", flush=True)
    return mutant.name, mutant.file, result, what, seconds


if __name__ == "__main__":
    sys.exit(main())
