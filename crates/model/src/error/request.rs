//! The errors that only requests have: of URLs, headers, verbs and media types, and of a gateway that cannot serve.

use super::row::catalog;

catalog! {
    /// An error of a request over HTTP. `Display` gives the service's message without its code.
    pub enum RequestError {
        /// The keys in a path do not parse.
        UrlSyntax: InvalidInput FrontEnd
            "Bad Request - Error in query syntax.";
        /// A path has another number of keys than its resource.
        UrlKeyCount: InvalidInput FrontEnd
            "The number of keys specified in the URI does not match number of key properties for the resource.";
        /// A key in a path has a character that no key may have.
        UrlKeyOutOfRange: OutOfRangeInput FrontEnd
            "One of the request inputs is out of range.";
        UriInvalid: InvalidUri FrontEnd
            "The requested URI does not represent any resource on the server.";
        HostMissing: HostInformationNotPresent FrontEnd
            "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.";
        /// A request to an emulator under a name that a page on the web may have led there.
        HostNotAllowed { name: String }: AuthorizationFailure FrontEnd
            "This emulator does not answer under the name {name}, because the key of its account is public and a web page can have any name of the Internet: use localhost or an address, or start it with --allowed-host {name}.";
        QueryParameterInvalid { name: &'static str }: InvalidQueryParameterValue FrontEnd
            "Value for one of the query parameters specified in the request URI is invalid."
            hint "The parameter is {name}.";
        VerbNotSupported: UnsupportedHttpVerb FrontEnd
            "The resource doesn't support the specified HTTP verb.";

        HeaderInvalid { name: &'static str }: InvalidHeaderValue FrontEnd
            "The value for one of the HTTP headers is not in the correct format."
            hint "The header is {name}.";
        HeaderMissing { name: &'static str }: MissingRequiredHeader FrontEnd
            "An HTTP header that's mandatory for this request is not specified."
            hint "The header is {name}.";
        /// A preflight request lacks one of its headers.
        CorsHeaderMissing { name: &'static str }: MissingRequiredHeader FrontEnd
            "A required CORS header is not present."
            hint "The header is {name}.";
        IfNoneMatch { verb: &'static str }: InvalidInput FrontEnd
            "If-None-Match HTTP header cannot be specified for {verb} operations.";
        BothConditions: InvalidInput FrontEnd
            "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.";
        ConditionWithoutEtag: InvalidInput FrontEnd
            "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.";
        MethodTunnelNotPost: XMethodNotUsingPost FrontEnd
            "The request uses X-HTTP-Method with an HTTP verb other than POST.";
        MethodTunnelValue: XMethodIncorrectValue FrontEnd
            "The specified X-HTTP-Method is invalid.";
        MethodTunnelCount: XMethodIncorrectCount FrontEnd
            "More than one X-HTTP-Method is specified.";

        AtomFormatNotSupported: AtomFormatNotSupported FrontEnd
            "Atom format is not supported.";
        JsonVerboseFormatNotSupported: JsonVerboseFormatNotSupported FrontEnd
            "JSON verbose format is not supported.";
        MediaTypeNotSupported: MediaTypeNotSupported FrontEnd
            "None of the provided media types are supported";
        /// The body is not an entity group transaction; `reason` says where it goes wrong.
        MalformedBatch { reason: String }: InvalidInput FrontEnd
            "An error occurred while processing this request."
            hint "{reason}.";

        /// A request to a service that azurite has beside its tables, and the emulator in its place has not.
        ServiceNotEmulated { service: &'static str }: NotImplemented FrontEnd
            "This emulator serves tables only: it has no {service} service.";

        /// An object of a user depends on the table or the entity; the message is PostgreSQL's.
        HasDependents { message: String }: Conflict BackEnd
            "{message}";
        WriteOnSecondary: InsufficientAccountPermissions FrontEnd
            "Write operations are not allowed.";
        CorsPreflightFailure: CorsPreflightFailure FrontEnd
            "CORS not enabled or no matching rule found for this request.";

        /// The request cannot be served now; `reason` says what is busy, for the log.
        ServerBusy { reason: String }: ServerBusy BackEnd
            "The server is currently unable to receive requests. Please retry your request."
            hint "{reason}.";
        OperationTimedOut { reason: String }: OperationTimedOut BackEnd
            "The operation could not be completed within the permitted time."
            hint "{reason}.";
        /// A fault of the server, not of the client; `reason` is for the log.
        Internal { reason: String }: InternalError BackEnd
            "Server encountered an internal error. Please try again after some time."
            hint "{reason}.";
    }
}
