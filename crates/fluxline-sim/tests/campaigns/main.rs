//! Long searches and measurements. `tools/campaign.sh sim_campaigns` runs them.

mod confidence;
