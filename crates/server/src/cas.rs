//! The CAS API: xorbs, shards, reconstructions and dedup queries, as the XET protocol has them.

mod caller;
mod chunk;
mod chunk_list;
mod data;
mod range_edit;
mod reconstruction;
mod shards;
mod telemetry;
mod xorbs;

use axum::routing::{get, head, post};
use xet::wire::routes::Endpoint;

use crate::http::router::Route;
use crate::urls::data_url::DATA_ROUTE;

/// The routes of data URLs and of every endpoint of the protocol.
pub(crate) fn routes() -> Vec<Route> {
    let endpoints = [
        (Endpoint::ReconstructionV1, get(reconstruction::v1)),
        (Endpoint::ReconstructionV2, get(reconstruction::v2)),
        (
            Endpoint::BatchReconstruction,
            get(reconstruction::batch_by_query).post(reconstruction::batch_by_body),
        ),
        (Endpoint::Chunk, get(chunk::find)),
        (Endpoint::Xorb, post(xorbs::receive).head(xorbs::head)),
        (Endpoint::ShardsV1, post(shards::receive_v1)),
        (Endpoint::ShardsV2, post(shards::receive_v2)),
        (Endpoint::ShardKeyed, post(shards::receive_v1)),
        (Endpoint::File, head(reconstruction::head)),
        (Endpoint::Telemetry, post(telemetry::receive)),
        (Endpoint::FileChunkHashes, get(range_edit::windows)),
        (Endpoint::ChunkList, get(chunk_list::list)),
    ];
    // An endpoint is under every path clients have for it.
    let endpoints = endpoints.into_iter().flat_map(|(endpoint, methods)| {
        endpoint.templates().iter().map(move |path| ((*path).to_owned(), methods.clone()))
    });
    endpoints.chain([(DATA_ROUTE.to_owned(), get(data::serve))]).collect()
}
