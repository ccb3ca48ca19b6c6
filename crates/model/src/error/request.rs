//! The errors that only requests have: of URLs, headers, verbs and media types, and of a gateway that cannot serve.

use super::row::catalog;

catalog! {
    /// An error of a request over HTTP. `Display` gives the service's message without its code.
    pub enum RequestError {
        /// The keys in a path do not parse.
        UrlSyntax => {
            code: InvalidInput, stage: FrontEnd,
            message: "Bad Request - Error in query syntax.",
        }
        /// A path has another number of keys than its resource.
        UrlKeyCount => {
            code: InvalidInput, stage: FrontEnd,
            message: "The number of keys specified in the URI does not match number of key properties for the resource.",
        }
        /// A key in a path has a character that no key may have.
        UrlKeyOutOfRange => {
            code: OutOfRangeInput, stage: FrontEnd,
            message: "One of the request inputs is out of range.",
        }
        UriInvalid => {
            code: InvalidUri, stage: FrontEnd,
            message: "The requested URI does not represent any resource on the server.",
        }
        HostMissing => {
            code: HostInformationNotPresent, stage: FrontEnd,
            message: "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.",
        }
        /// A request to an emulator under a name that a page on the web may have led there.
        HostNotAllowed { name: String } => {
            code: AuthorizationFailure, stage: FrontEnd,
            message: "This emulator does not answer under the name {name}, because the key of its account is public and a web page can have any name of the Internet: use localhost or an address, or start it with --allowed-host {name}.",
        }
        QueryParameterInvalid { name: &'static str } => {
            code: InvalidQueryParameterValue, stage: FrontEnd,
            message: "Value for one of the query parameters specified in the request URI is invalid.",
            hint: "The parameter is {name}.",
        }
        VerbNotSupported => {
            code: UnsupportedHttpVerb, stage: FrontEnd,
            message: "The resource doesn't support the specified HTTP verb.",
        }

        HeaderInvalid { name: &'static str } => {
            code: InvalidHeaderValue, stage: FrontEnd,
            message: "The value for one of the HTTP headers is not in the correct format.",
            hint: "The header is {name}.",
        }
        HeaderMissing { name: &'static str } => {
            code: MissingRequiredHeader, stage: FrontEnd,
            message: "An HTTP header that's mandatory for this request is not specified.",
            hint: "The header is {name}.",
        }
        /// A preflight request lacks one of its headers.
        CorsHeaderMissing { name: &'static str } => {
            code: MissingRequiredHeader, stage: FrontEnd,
            message: "A required CORS header is not present.",
            hint: "The header is {name}.",
        }
        IfNoneMatch { verb: &'static str } => {
            code: InvalidInput, stage: FrontEnd,
            message: "If-None-Match HTTP header cannot be specified for {verb} operations.",
        }
        BothConditions => {
            code: InvalidInput, stage: FrontEnd,
            message: "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
        }
        ConditionWithoutEtag => {
            code: InvalidInput, stage: FrontEnd,
            message: "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.",
        }
        MethodTunnelNotPost => {
            code: XMethodNotUsingPost, stage: FrontEnd,
            message: "The request uses X-HTTP-Method with an HTTP verb other than POST.",
        }
        MethodTunnelValue => {
            code: XMethodIncorrectValue, stage: FrontEnd,
            message: "The specified X-HTTP-Method is invalid.",
        }
        MethodTunnelCount => {
            code: XMethodIncorrectCount, stage: FrontEnd,
            message: "More than one X-HTTP-Method is specified.",
        }

        AtomFormatNotSupported => {
            code: AtomFormatNotSupported, stage: FrontEnd,
            message: "Atom format is not supported.",
        }
        JsonVerboseFormatNotSupported => {
            code: JsonVerboseFormatNotSupported, stage: FrontEnd,
            message: "JSON verbose format is not supported.",
        }
        MediaTypeNotSupported => {
            code: MediaTypeNotSupported, stage: FrontEnd,
            message: "None of the provided media types are supported",
        }
        /// The body is not an entity group transaction; `reason` says where it goes wrong.
        MalformedBatch { reason: String } => {
            code: InvalidInput, stage: FrontEnd,
            message: "An error occurred while processing this request.",
            hint: "{reason}.",
        }

        /// A request to a service that azurite has beside its tables, and the emulator in its place has not.
        ServiceNotEmulated { service: &'static str } => {
            code: NotImplemented, stage: FrontEnd,
            message: "This emulator serves tables only: it has no {service} service.",
        }

        /// An object of a user depends on the table or the entity; the message is PostgreSQL's.
        HasDependents { message: String } => {
            code: Conflict, stage: BackEnd,
            message: "{message}",
        }
        WriteOnSecondary => {
            code: InsufficientAccountPermissions, stage: FrontEnd,
            message: "Write operations are not allowed.",
        }
        CorsPreflightFailure => {
            code: CorsPreflightFailure, stage: FrontEnd,
            message: "CORS not enabled or no matching rule found for this request.",
        }

        /// The request cannot be served now; `reason` says what is busy, for the log.
        ServerBusy { reason: String } => {
            code: ServerBusy, stage: BackEnd,
            message: "The server is currently unable to receive requests. Please retry your request.",
            hint: "{reason}.",
        }
        OperationTimedOut { reason: String } => {
            code: OperationTimedOut, stage: BackEnd,
            message: "The operation could not be completed within the permitted time.",
            hint: "{reason}.",
        }
        /// A fault of the server, not of the client; `reason` is for the log.
        Internal { reason: String } => {
            code: InternalError, stage: BackEnd,
            message: "Server encountered an internal error. Please try again after some time.",
            hint: "{reason}.",
        }
    }
}
