"""A Spark job: files of any size become a graph in one commit, and what Spark finds out about it goes back into it.

    python examples/spark_job.py                            with a local Spark, which needs no Java on the machine
    spark-submit --master spark://… examples/spark_job.py   with the session of a cluster

The run id is the idempotency key: a job that is started again after its driver died writes nothing twice.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import omnigraph as og

SCHEMA = """
node Account { name: String @key  country: String  rank: F64? }
edge Paid: Account -> Account { amount: F64 }
"""


def main(place: Path, run_id: str) -> None:
    """Raw payments in CSV files, cleaned in SQL, loaded, ranked, and read back as a frame."""
    (place / "payments").mkdir()
    lines = [f"{n % 50},{(n * 7 + 1) % 50},{n % 13}.50,{'de' if n % 3 else 'fr'}" for n in range(5_000)]
    (place / "payments" / "2026.csv").write_text("payer,payee,amount,country\n" + "\n".join(lines), "utf-8")

    spark = og.spark_session()
    spark.read.csv(str(place / "payments"), header=True, inferSchema=True).createOrReplaceTempView("payments")
    accounts = spark.sql(
        "select concat('account ', payer) as name, min(country) as country from payments group by payer"
    )
    paid = spark.sql(
        "select concat('account ', payer) as `from`, concat('account ', payee) as `to`, sum(amount) as amount "
        "from payments where payer <> payee group by payer, payee"
    )

    graph = og.init(place / "payments.omni", schema=SCHEMA, actor="nightly")
    first = graph.load({"Account": accounts, "Paid": paid}, mode="merge", idempotency_key=run_id)
    print(f"loaded {first.summary.rows:,} rows on {first.summary.engine} as one commit")
    again = graph.load({"Account": accounts, "Paid": paid}, mode="merge", idempotency_key=run_id)
    print(f"the same run again: {'nothing to do' if again.repeated else 'written twice'}")

    ranks = graph.analytics.page_rank(["Paid"])
    graph.analytics.write_back(ranks, {"rank": "rank"})
    frame = spark.read.format("omnigraph").option("type", "Account").load(graph.uri)
    ranked, total = frame.where("rank is not null").selectExpr("count(*)", "round(sum(rank), 3)").first()
    print(f"the ranks of {ranked} accounts add up to {total}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch), "2026-11-16")
