//! Fields that clients of the Hub may send and this server does not implement.
//!
//! Every body is read strictly: a field that is not known is refused by the parser, by its name. Fields of features that are
//! missing here are known, so that the refusal says so, and so that an empty value is accepted.

use serde::Deserialize;
use serde_json::Value;

use crate::http::error::ApiError;

/// Value of such a field.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Unsupported(Option<Value>);

impl Unsupported {
    fn is_empty(&self) -> bool {
        match &self.0 {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(Value::Bool(true) | Value::Number(_)) => false,
        }
    }
}

/// Refuses the first of these fields that is not empty; each has its name and the feature that is missing.
pub(crate) fn refuse(fields: &[(&str, &Unsupported, &str)]) -> Result<(), ApiError> {
    match fields.iter().find(|(_, value, _)| !value.is_empty()) {
        Some((name, _, what)) => {
            Err(ApiError::invalid(format!("{name}: this server does not support {what}")))
        }
        None => Ok(()),
    }
}

/// Body of a request that takes none: nothing, or an object without fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_value_is_accepted_and_all_others_are_refused_by_name() {
        let read = |value: Value| serde_json::from_value::<Unsupported>(value).unwrap();
        for nothing in [json!(null), json!(false), json!(""), json!([]), json!({})] {
            assert!(refuse(&[("gated", &read(nothing), "gates")]).is_ok());
        }
        assert!(refuse(&[("gated", &Unsupported::default(), "gates")]).is_ok());
        for something in [json!(true), json!("auto"), json!(0), json!([1]), json!({"a": 1})] {
            let refused = refuse(&[("gated", &read(something), "gates")]).unwrap_err();
            assert_eq!(refused.message(), "gated: this server does not support gates");
        }
    }
}
