#!/usr/bin/env bash
# Fills a folder with everything that is installed below a prefix such as /usr.
#
# usage: stage.sh PROGRAMS PREFIX     PROGRAMS is the folder of the built `drystone` and `shardpack`
set -euo pipefail
programs="$(realpath "$1")"
prefix="$2"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for program in drystone shardpack; do
    install -D -m 755 "$programs/$program" "$prefix/bin/$program"
    install -d "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
        "$prefix/share/zsh/vendor-completions" "$prefix/share/fish/vendor_completions.d"
    "$programs/$program" man "$prefix/share/man/man1"
    "$programs/$program" completions bash >"$prefix/share/bash-completion/completions/$program"
    "$programs/$program" completions zsh >"$prefix/share/zsh/vendor-completions/_$program"
    "$programs/$program" completions fish >"$prefix/share/fish/vendor_completions.d/$program.fish"
done
# A debug build is for trying the scripts out; nobody wants its line numbers in a package.
if [ "${STAGE_STRIP:-}" = 1 ]; then
    strip --strip-debug "$prefix/bin/drystone" "$prefix/bin/shardpack"
fi
install -D -m 644 packaging/systemd/drystone.service "$prefix/lib/systemd/system/drystone.service"
install -D -m 644 packaging/systemd/drystone-verify.service "$prefix/lib/systemd/system/drystone-verify.service"
install -D -m 644 packaging/systemd/drystone-verify.timer "$prefix/lib/systemd/system/drystone-verify.timer"
install -D -m 644 packaging/systemd/drystone-backup.service "$prefix/lib/systemd/system/drystone-backup.service"
install -D -m 644 packaging/systemd/drystone-backup.timer "$prefix/lib/systemd/system/drystone-backup.timer"
install -D -m 644 packaging/systemd/drystone.sysusers "$prefix/lib/sysusers.d/drystone.conf"
install -D -m 644 packaging/grafana/drystone.json "$prefix/share/drystone/grafana/drystone.json"
install -D -m 644 packaging/prometheus/drystone.rules.yaml "$prefix/share/drystone/prometheus/drystone.rules.yaml"
install -D -m 644 packaging/drystone.toml "$prefix/share/drystone/drystone.toml"
for page in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
    install -D -m 644 "$page" "$prefix/share/doc/drystone/$page"
done
chmod -R u=rwX,go=rX "$prefix"
