"""A model reads the web: a person or a rule agrees to a site, and nobody can agree to the inside."""

from tests.conftest import OpenSystem
from tests.requirements import requirement
from tests.system import scenario, step, until
from tests.tools.hostile_site import opened, redirect, said


@requirement("T-06", "R-12", "X-03")
async def test_a_page_is_read_after_a_yes_or_under_a_rule_and_the_inside_never(system: OpenSystem) -> None:
    async with opened() as site:
        site.answers["/docs/a"] = said(b"a round turn holds the load")
        site.answers["/docs/b"] = said(b"two half hitches")
        site.answers["/docs/away"] = redirect(f"http://elsewhere.example:{site.port}/docs/a")
        s = await system(
            scenario(
                "go",
                step(("read_page", {"url": site.url("/docs/a")}), ("read_page", {"url": site.url("/docs/b")})),
                step(
                    ("web_fetch", {"url": site.url("/docs/a", host="127.0.0.1")}),
                    ("read_page", {"url": site.url("/docs/b?after=the redirect")}),
                    ("read_page", {"url": site.url("/docs/away")}),
                ),
                step(text="{{results}}"),
            ),
            policy={
                "rules": [
                    {
                        "id": "knots",
                        "effect": "auto_approve",
                        "match": {"name": "read_page", "argument": {"name": "url", "glob": site.url("/docs/b")}},
                    }
                ]
            },
        )  # fmt: skip
        await s.start_worker(TEST_SITE=str(site.port))
        turn = await s.send("go")
        (asked,) = await s.pending(turn)
        assert asked.arguments == {"url": site.url("/docs/a")}
        await until(lambda: site.paths == ["/docs/b"], "the page that the rule waives; the other one waits")
        await s.decide(asked.id)

        async def told(position: str) -> tuple[str, str]:
            found = await s.client.store.ledger.read(f"{turn}.{position}")
            assert found is not None
            return found.output, str(found.metadata.get("error_type", ""))

        inside, spelt, away = await s.pending(turn, 3)
        assert "a round turn holds the load" in (await told("0.0"))[0]
        assert "two half hitches" in (await told("0.1"))[0]
        before = list(site.paths)
        await s.decide(inside.id)
        await s.decide(spelt.id, "deny")
        await s.decide(away.id)
        assert (await s.ended(turn)).state == "completed"
        output, error = await told("1.0")
        assert error == "address_refused"
        assert "127.0.0.1 is not a public address" in output
        assert (await told("1.1"))[1] == "approval_denied"
        output, _ = await told("1.2")
        assert output.startswith(f"Nothing was read: site.example:{site.port} redirects elsewhere.")
        assert f"\nhttp://elsewhere.example:{site.port}/docs/a\n" in output
        assert site.paths == [*before, "/docs/away"]


@requirement("R-12", "X-03")
async def test_a_redirect_does_not_carry_a_waiver_to_what_would_be_asked_about(system: OpenSystem) -> None:
    """What a person or a rule let pass is one address; the server may not choose another one of its site."""
    async with opened() as site:
        site.answers["/open/go"] = redirect("/closed/keys")
        site.answers["/open/near"] = redirect("/open/page")
        site.answers["/open/page"] = said(b"two half hitches")
        site.answers["/closed/keys"] = said(b"keys")
        waived = {"name": "read_page", "argument": {"name": "url", "glob": site.url("/open/*")}}
        s = await system(
            scenario(
                "go",
                step(*(("read_page", {"url": site.url(f"/open/{name}")}) for name in ("go", "near"))),
                step(text="{{results}}"),
            ),
            policy={"rules": [{"id": "open", "effect": "auto_approve", "match": waived}]},
        )
        await s.start_worker(TEST_SITE=str(site.port))
        row = await s.ended(await s.send("go"))
        assert "two half hitches" in row.text
        assert f"\n{site.url('/closed/keys')}\n" in row.text, "it is told and may be asked for by itself"
        assert "/closed/keys" not in site.paths
