"""The PostgreSQL server that other tests rely on."""

from __future__ import annotations

import psycopg
import pytest

from tests import postgres_service


def test_each_test_gets_an_empty_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        connection.execute("CREATE TABLE seen (id bigint)")


def test_what_one_test_wrote_the_next_does_not_see(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regclass('public.seen')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("required", "outcome"), [("postgres", pytest.fail.Exception), ("", pytest.skip.Exception)], ids=["fails", "skips"]
)
def test_without_a_server_a_test_fails_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("FRAZIL_TEST_REQUIRE", required)
    monkeypatch.setattr(postgres_service, "find_programs", lambda: None)
    with pytest.raises(outcome, match="no PostgreSQL server"):
        next(postgres_service.postgres_server.__wrapped__())
