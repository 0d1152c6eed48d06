"""Eight threads at once in one session: everybody gets the right rows, and all come to an end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

_THREADS = 8
_SECONDS = 150


def all_done(work):
    """Run `work(number)` in eight threads; a deadlock is a time-out."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        waiting = [pool.submit(work, number) for number in range(_THREADS)]
        return [one.result(timeout=_SECONDS) for one in waiting]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def test_reads_inserts_and_definitions_in_tables_of_their_own(spark, lake, name):
    def work(number):
        mine = f"{name}_{number}"
        spark.sql(f"CREATE TABLE {mine} (id BIGINT) TBLPROPERTIES ('n' = '{number}')")
        for turn in range(3):
            spark.sql(f"INSERT INTO {mine} SELECT id + {turn * 10} FROM range({number + 1})")
            assert spark.table(mine).count() == (turn + 1) * (number + 1)
        spark.sql(f"ALTER TABLE {mine} ADD COLUMN note STRING")
        spark.sql(f"ALTER TABLE {mine} CREATE TAG t{number}")
        spark.sql(f"DELETE FROM {mine} WHERE id >= 20")
        [[properties]] = spark.sql(f"SELECT count(*) FROM {mine} VERSION AS OF 't{number}'").collect()
        assert properties == 3 * (number + 1)
        return sorted(tuple(row) for row in spark.table(mine).collect())

    for number, found in enumerate(all_done(work)):
        assert found == sorted((turn * 10 + id_, None) for turn in range(2) for id_ in range(number + 1))


def test_inserts_into_one_table_are_all_there_and_readers_see_whole_commits(spark, lake, name):
    spark.sql(
        f"CREATE TABLE {name} (who INT, turn INT)"
        " TBLPROPERTIES ('commit.retry.num-retries' = '50', 'commit.retry.min-wait-ms' = '5')"
    )

    def work(number):
        if number % 2:
            seen = []
            for _ in range(5):
                mode = "arrow" if number == 1 else "native"
                rows = [tuple(row) for row in spark.read.option("frazil.scan", mode).table(name).collect()]
                seen.append(len(rows))
                assert all(rows.count((who, turn)) == 2 for who, turn in rows)
            assert seen == sorted(seen)
        else:
            for turn in range(3):
                spark.sql(f"INSERT INTO {name} VALUES ({number}, {turn}), ({number}, {turn})")

    all_done(work)
    found = sorted(tuple(row) for row in spark.table(name).collect())
    assert found == sorted((who, turn) for who in (0, 2, 4, 6) for turn in range(3) for _ in range(2))
