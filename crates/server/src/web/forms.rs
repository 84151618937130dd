//! Fields of the forms of pages, besides the word of the session: a form with any other field is refused by its name.

use crate::http::error::ApiError;
use crate::http::query::Query;

/// The forms by where they are sent, and what they have. `undelete` is the one of repositories.
const FORMS: &[(&str, &[&str])] = &[
    ("/-/account/password", &["username", "old", "new"]),
    ("/-/account/revoke", &["id"]),
    ("/-/account/token", &["label", "rights", "days"]),
    ("/-/admin/delete-org", &["org", "confirm"]),
    ("/-/admin/delete-user", &["user", "confirm"]),
    ("/-/admin/disable-user", &["user"]),
    ("/-/admin/enable-user", &["user"]),
    ("/-/admin/member", &["org", "user", "role"]),
    ("/-/admin/org", &["name"]),
    ("/-/admin/password", &["user", "password"]),
    ("/-/admin/quota", &["of", "logical_soft", "logical_hard", "physical_soft", "physical_hard"]),
    ("/-/admin/reclaim", &["id"]),
    ("/-/admin/remove-member", &["org", "user"]),
    ("/-/admin/remove-quota", &["of"]),
    ("/-/admin/restore", &["id", "name"]),
    ("/-/admin/revoke", &["id"]),
    ("/-/admin/token", &["user", "label", "rights", "days"]),
    ("/-/admin/user", &["name"]),
    ("/-/sign-in", &["next", "token", "name", "password"]),
    ("/-/sign-out", &[]),
    ("undelete", &["revision", "path", "as"]),
];

/// Refuses a field that the form at this path does not have, and one that is repeated. What has no form has no fields to
/// compare with.
pub(super) fn check(path: &str, form: &Query) -> Result<(), ApiError> {
    let fits = |name: &str| path == name || !path.starts_with("/-/") && path.rsplit('/').next() == Some(name);
    let Some((_, fields)) = FORMS.iter().find(|(name, _)| fits(name)) else { return Ok(()) };
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in form.pairs() {
        if name != "word" && !fields.contains(&name) {
            let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(ApiError::invalid(format!("{name}: the form has no such field")));
        }
        if seen.contains(&name) {
            return Err(ApiError::invalid(format!("{name}: given more than once")));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const TEMPLATES: &[&str] = &[
        include_str!("../../templates/account.html"),
        include_str!("../../templates/admin.html"),
        include_str!("../../templates/base.html"),
        include_str!("../../templates/sign_in.html"),
        include_str!("../../templates/undelete.html"),
    ];

    fn values<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
        html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn every_form_of_the_pages_is_known_with_its_fields() {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for form in TEMPLATES.iter().flat_map(|html| html.split("<form").skip(1)) {
            let form = form.split("</form>").next().unwrap();
            if !form.contains("method=\"post\"") {
                continue;
            }
            let action = values(form, "action=\"").next().unwrap();
            let action = if action.starts_with("/-/") { action } else { action.rsplit('/').next().unwrap() };
            let fields = values(form, " name=\"").filter(|name| *name != "word");
            found.entry(action).or_default().extend(fields);
        }
        for (action, fields) in found {
            let (_, known) =
                FORMS.iter().find(|(name, _)| *name == action).unwrap_or_else(|| panic!("{action}"));
            assert!(fields.iter().all(|field| known.contains(field)), "{action}: {fields:?}");
        }
    }

    #[test]
    fn a_field_that_a_form_does_not_have_is_refused_by_its_name() {
        let refused = |path: &str, form: &str| {
            check(path, &Query::form(form.as_bytes())).err().map(|error| error.message().to_owned())
        };
        assert!(refused("/-/admin/user", "word=x&name=bob&xyzzy=1").unwrap().starts_with("xyzzy"));
        assert!(refused("/-/admin/user", "name=bob&name=ann").unwrap().starts_with("name"));
        assert!(refused("/ann/a/undelete", "path=x&xyzzy=1").unwrap().starts_with("xyzzy"));
        assert_eq!(refused("/ann/a/undelete", "word=x&revision=1&as=b"), None);
        assert_eq!(refused("/-/admin/quota", "word=x&of=ann&logical_soft="), None);
    }
}
