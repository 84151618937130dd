//! Queries and forms: keys that may repeat, in the order they came.

use url::form_urlencoded;

/// What follows the question mark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        Self::form(text.unwrap_or_default().as_bytes())
    }

    /// A body of the form `a=b&c=d`.
    pub(crate) fn form(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// All keys and values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The first value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| is_key(found, key)).map(|(_, value)| value.as_str())
    }

    /// All values of a key, also spelled `key[]`.
    pub(crate) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| is_key(found, key)).map(|(_, value)| value.as_str())
    }

    /// All values of a key whose values are words, in one value apart by commas or in several.
    pub(crate) fn words<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.values(key).flat_map(|value| value.split(',')).filter(|word| !word.is_empty())
    }

    /// Whether a key is set to something that means yes.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| matches!(value, "1" | "true" | "True" | ""))
    }

    /// A whole number; the largest there is in place of one that is larger. `None` for anything else.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let digits = self.value(key).filter(|value| !value.is_empty())?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().unwrap_or(u64::MAX))
    }

    /// A number between 1 and the most.
    pub(crate) fn limit(&self, key: &str, default: usize, max: usize) -> usize {
        let needed = self.number(key).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        needed.unwrap_or(default).clamp(1, max)
    }

    /// The query again with one key set to something else.
    pub(crate) fn with(&self, key: &str, value: &str) -> String {
        let others = self.0.iter().filter(|(found, _)| found != key);
        let pairs = others.map(|(key, value)| (key.as_str(), value.as_str())).chain([(key, value)]);
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }
}

fn is_key(found: &str, key: &str) -> bool {
    found.strip_suffix("[]").unwrap_or(found) == key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_repeat_with_and_without_brackets() {
        let query = Query::parse(Some("expand[]=a&expand=b%2Fc&limit=5&recursive=true&full="));
        assert_eq!(query.values("expand").collect::<Vec<_>>(), ["a", "b/c"]);
        assert_eq!(
            Query::parse(Some("expand=a,,b&expand[]=c&expand=")).words("expand").collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert!(query.is_set("recursive") && query.is_set("full") && !query.is_set("limit"));
        assert_eq!(
            (query.limit("limit", 9, 100), query.limit("none", 9, 100), query.limit("limit", 9, 3)),
            (5, 9, 3)
        );
        let query = Query::parse(Some("a=9223372036854775808&b=18446744073709551616&c=-1&d=1.5&e=&f=+1"));
        assert_eq!((query.number("a"), query.number("b")), (Some(1 << 63), Some(u64::MAX)));
        assert_eq!(["c", "d", "e", "f", "g"].map(|key| query.number(key)), [None; 5]);
        assert_eq!((query.limit("b", 9, 100), query.limit("c", 9, 100)), (100, 9));
        assert_eq!(Query::parse(Some("a=1&cursor=x")).with("cursor", "y/z"), "a=1&cursor=y%2Fz");
    }
}
