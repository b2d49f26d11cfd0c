//! Addresses of clusters: `kafka://BROKER:PORT,.../NAME`.

/// The address of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddress {
    /// Addresses of brokers, separated by commas.
    pub brokers: String,
    /// The cluster's name: the beginning of its topics' names.
    pub cluster: String,
}

impl ClusterAddress {
    /// Returns true when a text begins as such an address does.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("kafka://")
    }

    /// Reads an address.
    ///
    /// Errors: a sentence with an example.
    pub fn parse(text: &str) -> Result<ClusterAddress, String> {
        let rest = text.strip_prefix("kafka://").unwrap_or_default();
        let Some((brokers, cluster)) = rest.split_once('/').filter(|of| !of.1.is_empty()) else {
            return Err(format!(
                "`{text}` is not the address of a cluster; write for example \
                 kafka://10.0.0.5:9092/lab.beam."
            ));
        };
        fluxline_daq::experiment::check_brokers(brokers)?;
        fluxline_daq::experiment::check_topic(cluster)?;
        Ok(ClusterAddress { brokers: brokers.to_owned(), cluster: cluster.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_brokers_and_a_name_and_anything_else_is_a_sentence() {
        let address = ClusterAddress::parse("kafka://a:1,b:2/lab.beam").expect("an address");
        assert_eq!((&*address.brokers, &*address.cluster), ("a:1,b:2", "lab.beam"));
        for wrong in [
            "",
            "kafka://",
            "kafka:///x",
            "kafka://a:1",
            "kafka://a:1/",
            "kafka://a/x",
            "kafka://a:1/x/y",
            "http://a:1/x",
            "kafka://a:1/x y",
        ] {
            let said = ClusterAddress::parse(wrong).expect_err(wrong);
            assert!(said.contains("write") && said.ends_with('.'), "{said}");
        }
    }
}
