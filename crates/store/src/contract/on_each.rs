//! Runs the clauses of a contract on each database, every clause on an empty catalog of its own.

macro_rules! on_each_catalog {
    ($sqlite:ident, $postgres:ident: $($clause:ident),* $(,)?) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $sqlite() {
            let folder = tempfile::tempdir().unwrap();
            let mut numbers = 0..;
            let mut fresh = || {
                let file = folder.path().join(format!("{}.db", numbers.next().unwrap()));
                format!("sqlite://{}", file.display())
            };
            $(
                println!("{}", stringify!($clause));
                $clause(crate::db::Catalog::open_or_create(&fresh()).await.unwrap()).await;
            )*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $postgres() {
            let Some(server) = testkit::postgres::Postgres::start() else { return };
            $(
                println!("{}", stringify!($clause));
                $clause(crate::db::Catalog::open_or_create(&server.fresh_database()).await.unwrap()).await;
            )*
        }
    };
}
