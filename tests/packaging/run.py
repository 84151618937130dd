"""Makes the packages from built programs, installs them into folders, and lets the tools of each kind judge the rest.

usage: run.py PROGRAMS TOOLS     PROGRAMS: the folder of `drystone` and `shardpack`; TOOLS: hadolint, schemas (make setup)

What cannot be judged because a tool is missing is named on a line that begins with "skipped".
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROGRAMS, TOOLS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path[:0] = [str(ROOT / "tests"), str(TOOLS)]
from harness import Server, check  # noqa: E402

import yaml  # noqa: E402

PACKAGING = ROOT / "packaging"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def skipped(what, why):
    print(f"skipped: {what}: {why}")


def make(script, out):
    """Runs a script of `make dist` or `make deb` on the programs; the file it made."""
    env = {**os.environ, "DIST_BIN": str(PROGRAMS), "DIST_OUT": str(out), "SOURCE_DATE_EPOCH": "1700000000", "STAGE_STRIP": "1"}
    made = run(PACKAGING / script, env=env)
    check(f"{script} makes a package", made.returncode == 0, made.stderr)
    return Path(made.stdout.strip()) if made.returncode == 0 else None


def test_tarball(folder):
    made = make("dist.sh", folder / "a")
    again = make("dist.sh", folder / "b")
    if not made or not again:
        return
    check("the same programs give the same tarball", made.read_bytes() == again.read_bytes())
    sums = run("sha256sum", "--check", f"{made.name}.sha256", cwd=made.parent)
    check("the tarball has its checksum beside it", sums.returncode == 0, sums.stderr)
    with tarfile.open(made) as tar:
        members = tar.getmembers()
        check("files belong to root and have one time", {(m.uid, m.gid, m.mtime) for m in members} == {(0, 0, 1700000000)})
        tar.extractall(folder / "unpacked", filter="data")
    [top] = (folder / "unpacked").iterdir()
    sums = run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=top)
    check("every file in it has its checksum", sums.returncode == 0, sums.stdout)
    listed = {line.split("  ", 1)[1] for line in (top / "SHA256SUMS").read_text().splitlines()}
    there = {str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()} - {"SHA256SUMS"}
    check("and all files are listed", listed == there, listed ^ there)
    wanted = ["bin/drystone", "bin/shardpack", "LICENSE-MIT", "LICENSE-APACHE", "README.md", "share/man/man1/drystone-serve.1",
              "share/man/man1/shardpack-create.1", "share/bash-completion/completions/drystone",
              "share/zsh/vendor-completions/_shardpack", "share/fish/vendor_completions.d/drystone.fish"]
    check("it has programs, pages, completions and licences", set(wanted) <= there, set(wanted) - there)
    version = run(top / "bin/drystone", "--version").stdout
    check("the program in it runs, and is of the version in the name", version.split()[1] in made.name, version)
    script = run("bash", "-n", top / "share/bash-completion/completions/drystone")
    check("the completions are a script", script.returncode == 0, script.stderr)


def test_debian(folder):
    if not shutil.which("dpkg-deb"):
        return skipped("the Debian package", "there is no dpkg-deb")
    made = make("deb.sh", folder / "a")
    again = make("deb.sh", folder / "b")
    if not made or not again:
        return
    check("the same programs give the same package", made.read_bytes() == again.read_bytes())
    listing = run("dpkg-deb", "--contents", made).stdout
    check("files belong to root", all(" root/root " in line for line in listing.splitlines()))
    fields = run("dpkg-deb", "--field", made).stdout
    check("it depends on the C library it was built with", re.search(r"libc6 \(>= 2\.\d+\)", fields) is not None, fields)
    if os.geteuid() != 0 or not shutil.which("systemd-sysusers"):
        return skipped("the Debian package, installed", "it needs root and systemd-sysusers")
    root = folder / "root"
    for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"):
        (root / name).mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()

    def dpkg(*arguments):
        return run("dpkg", f"--root={root}", "--log=/dev/null", "--force-script-chrootless", "--force-depends", "--force-bad-path",
                   *arguments)

    installed = dpkg("--install", made)
    check("it installs into a folder", installed.returncode == 0, installed.stderr)
    state = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Status}", "drystone").stdout
    check("and is configured", state == "install ok installed", state)
    people = (root / "etc/passwd").read_text() if (root / "etc/passwd").exists() else ""
    check("a user is made in it", "drystone:" in people, people)
    settings = root / "etc/drystone/drystone.toml"
    check("settings are not for everyone", settings.stat().st_mode & 0o777 == 0o640, oct(settings.stat().st_mode))
    settings_json = run(root / "usr/bin/drystone", "config", "check", "--config", settings, "--data", folder / "data", "--json")
    check("the server understands the settings", settings_json.returncode == 0, settings_json.stdout + settings_json.stderr)
    settings.write_text(settings.read_text() + "# mine\n")
    dpkg("--install", made)
    check("an upgrade leaves settings that were changed", settings.read_text().endswith("# mine\n"))
    (root / "var/lib/drystone").mkdir(parents=True)
    removed = dpkg("--purge", "drystone")
    check("it goes without a trace, but leaves the data", removed.returncode == 0 and not settings.exists()
          and (root / "var/lib/drystone").exists() and not (root / "usr/bin/drystone").exists(), removed.stderr)


def test_units(folder):
    for unit in sorted(PACKAGING.glob("systemd/drystone*.service")):
        commands = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
        named = all("--config /etc/drystone/drystone.toml" in line for line in commands)
        is_alone = not re.search("^Environment=DRYSTONE_", unit.read_text(), re.MULTILINE)
        check(f"{unit.name} reads the settings of the server and no others", commands and named and is_alone, commands)
    if not shutil.which("systemd-analyze"):
        return skipped("the systemd units", "there is no systemd-analyze")
    for unit in PACKAGING.glob("systemd/drystone*.*"):
        if unit.suffix != ".sysusers":
            text = unit.read_text().replace("/usr/bin/drystone", str(PROGRAMS / "drystone"))
            (folder / unit.name).write_text(re.sub("^Documentation=.*\n", "", text, flags=re.MULTILINE))
    for unit in sorted(folder.iterdir()):
        judged = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
        complaints = [line for line in judged.stderr.splitlines() if unit.stem in line]
        check(f"{unit.name} is sound", judged.returncode == 0 and not complaints, judged.stderr)
        if unit.suffix == ".service":
            exposure = run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
            check(f"{unit.name} is exposed to less than 2 of 10", exposure.returncode == 0, exposure.stdout[-300:] + exposure.stderr)


def test_containers():
    hadolint = TOOLS / "bin/hadolint"
    linted = run(hadolint, PACKAGING / "docker/Dockerfile")
    check("hadolint accepts the Dockerfile", linted.returncode == 0, linted.stdout + linted.stderr)
    import jsonschema
    compose = yaml.safe_load((PACKAGING / "docker/compose.yaml").read_text())
    schema = json.loads((TOOLS / "compose/config/compose_spec.json").read_text())
    errors = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(compose)]
    check("the compose file is as its schema wants it", not errors, errors)
    names = set(compose["services"])
    check("services wait for existing services", all(set(service.get("depends_on", ())) <= names for service in compose["services"].values()))
    volumes = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ()) if volume[0] != "."}
    check("every volume is declared", volumes == set(compose["volumes"]), volumes)


def test_settings(folder):
    """Variables of containers are settings: a slip of a name would be silent in an orchestrator."""
    compose = yaml.safe_load((PACKAGING / "docker/compose.yaml").read_text())["services"]["hub-1"]["environment"]
    config = yaml.safe_load((PACKAGING / "kubernetes/configmap.yaml").read_text())["data"]
    docker = dict(re.findall(r"(DRYSTONE_\w+)=(\S+)", (PACKAGING / "docker/Dockerfile").read_text()))
    settings_json = json.loads(run(PROGRAMS / "drystone", "config", "check", "--json", "--data", folder / "data").stdout)
    known = {f"DRYSTONE_{setting['name'].upper()}" for setting in settings_json["settings"]}
    used = {name for place in (compose, config, docker) for name in place if name.startswith("DRYSTONE_")}
    check("containers name settings that there are", used <= known, used - known)
    env = {**os.environ, **config, "DRYSTONE_DATA": str(folder / "data"), "DRYSTONE_CATALOG": "sqlite://x.db", "DRYSTONE_OBJECTS": f"file://{folder}"}
    parsed = run(PROGRAMS / "drystone", "config", "check", "--json", env=env, cwd=folder)
    check("and give them values that can be read", parsed.stdout.startswith("{"), parsed.stderr)
    image = {**os.environ, **docker, "DRYSTONE_DATA": str(folder / "data")}
    parsed = run(PROGRAMS / "drystone", "config", "check", "--json", env=image, cwd=folder)
    check("the image has all settings that a server needs", parsed.stdout.startswith("{"), parsed.stderr)


def test_kubernetes():
    import kubernetes_validate
    kustomization = yaml.safe_load((PACKAGING / "kubernetes/kustomization.yaml").read_text())
    files = {file.name for file in (PACKAGING / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    check("the kustomization names every manifest", set(kustomization["resources"]) == files, files ^ set(kustomization["resources"]))
    for name in sorted(files):
        manifest = yaml.safe_load((PACKAGING / "kubernetes" / name).read_text())
        for version in ("1.28", "1.34"):
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
                check(f"{name} is as Kubernetes {version} wants it", True)
            except kubernetes_validate.ValidationError as error:
                check(f"{name} is as Kubernetes {version} wants it", False, error.message)
    deployment = yaml.safe_load((PACKAGING / "kubernetes/deployment.yaml").read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for name in ("service", "disruption", "network"):
        spec = yaml.safe_load((PACKAGING / f"kubernetes/{name}.yaml").read_text())["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        check(f"{name}.yaml selects the servers", selector.get("matchLabels", selector).items() <= labels.items())


def test_metrics(folder):
    """The names in dashboard and rules are those of a server's /metrics, or of the table that a test compares with its code."""
    page = (ROOT / "docs/operations/metrics.md").read_text()
    kinds = dict(re.findall(r"^\| `(drystone_\w+)` \| (\w+) \|", page, re.MULTILINE))
    known = {name for name, kind in kinds.items()}
    known |= {f"{name}_{part}" for name, kind in kinds.items() if kind == "histogram" for part in ("bucket", "sum", "count")}
    dashboard = json.loads((PACKAGING / "grafana/drystone.json").read_text())
    rules = yaml.safe_load((PACKAGING / "prometheus/drystone.rules.yaml").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    expressions += [rule["expr"] for rule in alerts]
    used = set(re.findall(r"\bdrystone_\w+", " ".join(expressions)))
    check("dashboard and rules use numbers that there are", used <= known, used - known)
    shown = {name.removesuffix("_bucket") for name in used}
    check("the dashboard or a rule has every number but what clients report of themselves",
          set(kinds) - shown == {"drystone_telemetry_reports_total"}, set(kinds) - shown)
    check("brackets of expressions close", all(text.count(a) == text.count(b) for text in expressions for a, b in ("()", "{}", "[]")))
    check("every alert says what happened, what to do and how bad it is", all(
        rule["alert"] and rule["annotations"]["summary"] and rule["annotations"]["description"] and rule["labels"]["severity"] in ("warning", "critical")
        for rule in alerts))
    ids = [panel["id"] for panel in dashboard["panels"]]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    check("panels have ids and places of their own", len(set(ids)) == len(ids) == len(set(places)))
    (folder / "hub").mkdir()
    server = Server(PROGRAMS / "drystone", folder / "hub" / "data")
    try:
        urllib.request.urlopen(f"{server.url}/ready").read()
        text = urllib.request.urlopen(f"{server.url}/metrics").read().decode()
    finally:
        server.stop()
    served = set(re.findall(r"^(drystone_\w+?)(?:_bucket|_sum|_count)?[{ ]", text, re.MULTILINE))
    check("a running server shows numbers under these names", len(served) >= 5 and served <= set(kinds), served - set(kinds))
    labels = dict(re.findall(r"^\| `(drystone_\w+)` \| \w+ \| ([\w, ]*) \|", page, re.MULTILINE))
    wrong = [(name, label) for name, inside in re.findall(r"(drystone_\w+)\{([^}]*)\}", " ".join(expressions))
             for label in re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", inside)
             if label not in [*re.split(", *", labels.get(re.sub("_bucket$", "", name), "")), "instance", "job"]]
    check("and queries labels that they have", not wrong, wrong)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_tarball, test_debian, test_units, test_settings, test_metrics):
            place = Path(folder) / test.__name__
            place.mkdir()
            test(place)
    test_containers()
    test_kubernetes()
    check.finish("packaging")


if __name__ == "__main__":
    main()
